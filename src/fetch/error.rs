//! The error of a request without a valid answer.

/// The error of a request without a valid answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// The cause and, if known, a remedy. Never contains a secret.
    pub message: String,
    /// What failed.
    pub fault: FetchFault,
}

/// What failed when there is no valid answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchFault {
    /// The name does not exist.
    NameUnknown,
    /// The resolver did not answer, or failed.
    Resolver,
    /// A private address, although the name is public.
    PrivateAddress,
    /// The connection.
    Connection,
    /// The certificate.
    Certificate,
    /// The connection was lost before the answer.
    NoAnswer,
    /// This process has no file descriptor left.
    NoDescriptors,
    /// The same for the request that follows a redirect: a request was sent before.
    NoDescriptorsAtRedirect,
    /// The host was reached: its answer, or none in time.
    Answer,
}
