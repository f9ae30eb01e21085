//! One source as the allocators see it.

use serde::{Deserialize, Serialize};

/// An open source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenSource {
    /// √π: the square root of the expected updates per step, times the source's weight.
    pub root: f32,
    /// When it was last probed, in steps.
    pub last: f64,
}
