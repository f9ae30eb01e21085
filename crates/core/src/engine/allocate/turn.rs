//! One source as the allocators see it.

use serde::{Deserialize, Serialize};

/// What an allocator knows of a source that may be probed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// √π: the square root of the updates that it is expected to have per step, times its weight.
    pub root: f32,
    /// When it was last probed, in steps.
    pub last: f64,
}
