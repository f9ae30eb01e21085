//! Values that may be secrets.

use std::path::PathBuf;

/// A value that may be a secret stored elsewhere. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Secret {
    /// Literal text in the configuration file.
    Literal(String),
    /// The content of a file, trimmed.
    File(PathBuf),
    /// A systemd credential: a file of that name in `$CREDENTIALS_DIRECTORY`.
    Credential(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Credential(name) => write!(f, "Credential({name})"),
        }
    }
}
