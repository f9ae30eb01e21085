//! Why there is no answer.

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// What happened, with what to do where that can be said. Never holds a secret.
    pub message: String,
    /// The host was reached, or the failure has nothing to do with reaching it; when nobody can be
    /// reached, it's our own network.
    pub reached: bool,
}
