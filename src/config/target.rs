//! Where matches go: what `[deliver.NAME]` means once it is known to be sound.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use tidewatch_core::time::Span;

use super::secret::Secret;

/// Who is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// As rules name it and as it is stored: `exec:notify`, `webhook:ops`, `atom:news`.
    pub name: Arc<str>,
    /// How.
    pub way: Way,
    /// How long one attempt may take, in real time.
    pub timeout: Span,
    /// How long a delivery is tried before it is given up.
    pub give_up: Span,
}

/// How somebody is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Way {
    /// A program gets the document on its standard input. No shell.
    Exec {
        /// The program, by its full path, and its arguments.
        command: Vec<String>,
    },
    /// The document is posted.
    Webhook {
        /// Where.
        url: Url,
        /// What it is signed with.
        secret: Option<Secret>,
        /// Extra request headers.
        headers: Vec<(String, Secret)>,
        /// It may live at a private address.
        allow_private: bool,
    },
    /// A feed of matches in a local file.
    Atom {
        /// The file.
        path: PathBuf,
        /// It holds the last so many.
        entries: u32,
    },
}
