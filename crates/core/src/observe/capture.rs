//! The text of the element that is being read.
//!
//! Most texts are one piece of the document, which is not copied. Must not know the element.

use std::borrow::Cow;

use super::written::Written;

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Capture<'t> {
    /// All of the text, as long as `copied` is empty.
    piece: &'t str,
    /// All of the text if it is not one piece of the document. Reused, so that it rarely grows.
    copied: String,
}

impl<'t> Capture<'t> {
    pub(super) fn clear(&mut self) {
        self.piece = "";
        self.copied.clear();
    }

    /// Adds a piece of the document.
    pub(super) fn push(&mut self, piece: &'t str) {
        if self.piece.is_empty() && self.copied.is_empty() {
            self.piece = piece;
        } else {
            self.push_copy(piece);
        }
    }

    /// Adds a text that is not in the document as it is.
    pub(super) fn push_copy(&mut self, text: &str) {
        if self.copied.is_empty() {
            self.copied.push_str(self.piece);
        }
        self.copied.push_str(text);
    }

    /// The text. The next one begins empty.
    pub(super) fn take(&mut self) -> Written<'t> {
        let text = match self.copied.as_str() {
            "" => Cow::Borrowed(self.piece),
            copied => Cow::Owned(copied.to_owned()),
        };
        self.clear();
        text
    }
}
