//! What one attempt sends, and what it needs to send it.

use crate::clock::Clock;
use crate::fetch::client::Fetcher;
use crate::store::reader::Reader;

/// What is sent.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    /// The number of its row.
    pub(super) id: i64,
    /// The same whenever the same is sent.
    pub(super) key: String,
    /// JSON, exactly as it goes out.
    pub(super) document: String,
}

/// What attempts are made with.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pub(super) reader: Reader,
    pub(super) fetcher: Fetcher,
    pub(super) clock: Clock,
}
