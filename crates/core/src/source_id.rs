//! The number of a source.

use serde::{Deserialize, Serialize};

/// A source's number, given by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceId(pub i64);
