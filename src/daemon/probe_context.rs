//! What all probes share.

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::store::probe_inputs::InputsQueue;
use crate::store::reader::Reader;
use crate::store::writer::Write;

use super::document_readers::DocumentReaders;

/// Shared context of all probes.
#[derive(Debug, Clone)]
pub struct ProbeContext {
    /// Reads stored copies of robots.txt.
    pub reader: Reader,
    /// Reads what changed documents are compared with.
    pub inputs: InputsQueue,
    /// Stores fetched robots.txt files.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Parses documents.
    pub readers: DocumentReaders,
    /// The clock.
    pub clock: Clock,
}
