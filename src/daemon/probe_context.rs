//! What all probes share.

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::store::probe_inputs::InputsQueue;
use crate::store::reader::Reader;
use crate::store::writer::Write;

use super::document_readers::DocumentReaders;
use super::messages::Control;

/// Shared context of all probes.
#[derive(Debug, Clone)]
pub struct ProbeContext {
    /// Reads stored copies of robots.txt.
    pub reader: Reader,
    /// Reads what changed documents are compared with.
    pub inputs: InputsQueue,
    /// Stores fetched robots.txt files.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Asks the scheduler before a redirect to another site.
    pub control: mpsc::UnboundedSender<Control>,
    /// Parses documents.
    pub readers: DocumentReaders,
    /// The clock.
    pub clock: Clock,
}

impl ProbeContext {
    /// The context of probes that this store, this scheduler and this clock belong to.
    pub fn new(
        reader: Reader,
        writes: mpsc::UnboundedSender<Write>,
        control: mpsc::UnboundedSender<Control>,
        clock: Clock,
    ) -> Self {
        let (inputs, readers) = (InputsQueue::start(reader.clone()), DocumentReaders::default());
        Self { reader, inputs, writes, control, readers, clock }
    }
}
