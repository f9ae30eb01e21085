//! The number of a source.

use serde::{Deserialize, Serialize};

/// The number of a source, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceId(pub i64);
