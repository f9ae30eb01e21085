//! How much is taken from a document, whatever it holds.
//!
//! A document is written by others. So what is read of it is bounded: the number of elements and items, the length of
//! each value that is kept, and the time. Texts are bounded by the size of the document. Must not know formats.

use std::fmt;

/// Maximum number of elements of a feed in XML, or of values of one in JSON. No real feed has more.
pub(super) const MAX_ELEMENTS: usize = 500_000;

/// Longest address in bytes: a link, the base of links, the address of a document. Longer ones are ignored.
pub const MAX_ADDRESS: usize = 4096;

/// Longest date in bytes. Longer ones are ignored.
pub(super) const MAX_DATE: usize = 128;

/// Maximum number of authors, and of categories, per item.
pub(super) const MAX_LABELS: usize = 64;

/// Steps of a reader (parts of markup, values, chunks of text) between two checks of the time.
const CHECK_EVERY: usize = 1024;

/// The limits of one reading that its caller decides.
#[derive(Clone, Copy)]
pub struct ReadingLimits<'c> {
    /// Maximum number of items. Later ones in the document are left out.
    pub items: usize,
    /// Whether the reading has taken too long.
    pub out_of_time: &'c dyn Fn() -> bool,
}

impl ReadingLimits<'static> {
    /// The usual number of items, and no limit of time.
    pub const USUAL: Self = Self { items: 10_000, out_of_time: &|| false };
}

impl fmt::Debug for ReadingLimits<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReadingLimits").field("items", &self.items).finish_non_exhaustive()
    }
}

impl ReadingLimits<'_> {
    /// Whether the reading must end, asked once per step of the reader. The time is checked at few of them.
    pub(super) fn end_at(&self, step: usize) -> bool {
        step.is_multiple_of(CHECK_EVERY) && (self.out_of_time)()
    }
}
