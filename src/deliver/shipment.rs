//! The input of one attempt to deliver.

use crate::clock::Clock;
use crate::fetch::client::Fetcher;
use crate::store::reader::Reader;

/// The document of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Shipment {
    /// The row's number in the outbox.
    pub(super) id: i64,
    /// Idempotency key; the same for every attempt.
    pub(super) key: String,
    /// The JSON text, sent unchanged.
    pub(super) document: String,
}

/// Shared resources of attempts.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pub(super) reader: Reader,
    pub(super) fetcher: Fetcher,
    pub(super) clock: Clock,
}
