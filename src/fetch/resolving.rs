//! Why a name has no address.
//!
//! The standard library gives the resolver's reason as a text only. Must not know which addresses are permitted.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a name has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyUnresolved {
    /// The name does not exist, or has no address.
    NoSuchName,
    /// This process has no file descriptor left.
    NoDescriptors,
    /// The resolver did not answer, or failed.
    Failed,
}

/// A name without an address.
#[derive(Debug)]
pub struct Unresolved {
    name: String,
    /// The reason.
    pub why: WhyUnresolved,
    cause: String,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why, cause } = self;
        match why {
            WhyUnresolved::NoSuchName => write!(f, "there is no address for the name {name} ({cause})"),
            WhyUnresolved::Failed | WhyUnresolved::NoDescriptors => {
                write!(f, "the name {name} cannot be resolved ({cause})")
            }
        }
    }
}

impl Error for Unresolved {}

/// The system's answers for a name that does not exist or has no address: of glibc, then of musl.
const NO_SUCH_NAME: [&str; 4] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "Name has no usable address",
];

impl Unresolved {
    /// The error of the system's resolver for this name.
    pub(super) fn new(name: &str, error: &io::Error) -> Self {
        let text = error.to_string();
        let cause = text.rsplit_once(": ").map_or(text.as_str(), |(_, cause)| cause).to_owned();
        let why = match cause.as_str() {
            _ if is_out_of_descriptors(error) => WhyUnresolved::NoDescriptors,
            cause if NO_SUCH_NAME.contains(&cause) => WhyUnresolved::NoSuchName,
            _ => WhyUnresolved::Failed,
        };
        Self { name: name.to_owned(), why, cause }
    }
}

/// The limit of this process, or of the machine, is reached.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| errno.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_exist_is_another_fault_than_a_resolver_that_fails() {
        let why = |text: &str| {
            let error = io::Error::other(format!("failed to lookup address information: {text}"));
            let unresolved = Unresolved::new("a.example", &error);
            (unresolved.why, unresolved.to_string())
        };
        for text in NO_SUCH_NAME {
            let message = format!("there is no address for the name a.example ({text})");
            assert_eq!(why(text), (WhyUnresolved::NoSuchName, message));
        }
        for text in [
            "Temporary failure in name resolution",
            "Non-recoverable failure in name resolution",
            "Try again",
        ] {
            let message = format!("the name a.example cannot be resolved ({text})");
            assert_eq!(why(text), (WhyUnresolved::Failed, message));
        }
        let full = Unresolved::new("a.example", &io::Error::from_raw_os_error(24));
        assert_eq!(full.why, WhyUnresolved::NoDescriptors);
    }
}
