//! stub
use crate::time::Span;
/// How long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Life {
    /// Y.
    Window(Span),
    /// Until the next.
    Overwrite,
}
