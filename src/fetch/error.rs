//! The error of a request without a valid answer.

/// The error of a request without a valid answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// The cause and, if known, a remedy. Never contains a secret.
    pub message: String,
    /// The host was reached, or the error does not concern the connection. If no host is reached, the local
    /// network is down.
    pub reached: bool,
}
