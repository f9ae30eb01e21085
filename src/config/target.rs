//! Delivery targets: `[deliver.NAME]` after validation.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use tidewatch_core::time::Span;

use super::secret::Secret;

/// A delivery target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetConfig {
    /// Name in rules and in the store: `exec:notify`, `webhook:ops`, `atom:news`.
    pub name: Arc<str>,
    /// Method of delivery.
    pub way: Way,
    /// Limit of one attempt, in real time.
    pub timeout: Span,
    /// Time after which a failing delivery is abandoned.
    pub give_up: Span,
}

/// Method of delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Way {
    /// Runs a program with the document on its standard input, without a shell.
    Exec {
        /// Full path of the program, and its arguments.
        command: Vec<String>,
    },
    /// Posts the document.
    Webhook {
        /// Address to post to.
        url: Url,
        /// Key of the signature.
        secret: Option<Secret>,
        /// Extra request headers.
        headers: Vec<(String, Secret)>,
        /// Whether it may be at a private address.
        allow_private: bool,
    },
    /// Writes a feed of matches to a local file.
    Atom {
        /// The file.
        path: PathBuf,
        /// Number of latest matches in the feed.
        entries: u32,
    },
}
