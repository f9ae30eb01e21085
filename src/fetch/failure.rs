//! Formats errors of the HTTP library in one line.
//!
//! `reqwest`'s errors show the URL and hide the cause; this finds the cause in the error chain. Must not
//! show URLs: they may contain user names, passwords and tokens.

use std::error::Error;
use std::io;

use super::error::{FetchError, FetchFault};
use super::guard::OnlyPrivate;
use super::resolving::{Unresolved, WhyUnresolved, is_out_of_descriptors};

impl FetchError {
    /// An error after the host was reached, or one that does not concern the connection.
    pub(super) fn remote(message: impl Into<String>) -> Self {
        Self { message: message.into(), fault: FetchFault::Answer }
    }

    /// A connection without an answer.
    pub(super) fn no_answer(message: impl Into<String>) -> Self {
        Self { message: message.into(), fault: FetchFault::NoAnswer }
    }

    /// A connection that took too long.
    pub(super) fn not_connected(message: impl Into<String>) -> Self {
        Self { message: message.into(), fault: FetchFault::Connection }
    }

    /// The same for a host that a redirect named. Its fault is not that of the host that was asked first, and the
    /// network works. A private address may be that of a portal that answers in place of every host. The lack of
    /// descriptors is no fault of either host.
    pub(super) fn after_redirect(self, from: &str) -> Self {
        match self.fault {
            FetchFault::PrivateAddress | FetchFault::Answer => self,
            FetchFault::NoDescriptors => Self { fault: FetchFault::NoDescriptorsAtRedirect, ..self },
            _ => Self::remote(format!("{from} redirects: {}", self.message)),
        }
    }
}

/// Formats an error that occurred while `doing` something with `host`. `fault` is what failed, unless the cause
/// shows more.
pub(super) fn explain(
    doing: &str,
    host: &str,
    fault: FetchFault,
    error: &(dyn Error + 'static),
) -> FetchError {
    if let Some(refused) = chain(error).find_map(|cause| cause.downcast_ref::<OnlyPrivate>()) {
        return FetchError { message: refused.to_string(), fault: FetchFault::PrivateAddress };
    }
    if let Some(unresolved) = chain(error).find_map(|cause| cause.downcast_ref::<Unresolved>()) {
        let message = unresolved.to_string();
        return match unresolved.why {
            WhyUnresolved::NoSuchName => FetchError { message, fault: FetchFault::NameUnknown },
            WhyUnresolved::NoDescriptors => no_descriptors(doing, host),
            WhyUnresolved::Failed => FetchError { message, fault: FetchFault::Resolver },
        };
    }
    if chain(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).any(is_out_of_descriptors) {
        return no_descriptors(doing, host);
    }
    // The outermost error is skipped because it shows the URL.
    let cause = chain(error).skip(1).last().map_or_else(|| "unknown cause".to_owned(), one_line);
    // The TLS library is a dependency of the HTTP library only; this is how its error begins.
    match cause.find(BAD_CERTIFICATE) {
        Some(at) => {
            let why = &cause[at + BAD_CERTIFICATE.len()..];
            let message = format!("the certificate of {host} is not valid: {why}");
            FetchError { message, fault: FetchFault::Certificate }
        }
        None => FetchError { message: format!("{doing} {host}: {cause}"), fault },
    }
}

const BAD_CERTIFICATE: &str = "invalid peer certificate: ";

fn no_descriptors(doing: &str, host: &str) -> FetchError {
    let message = format!(
        "{doing} {host}: tidewatch has no file descriptor left; raise its limit of open files (LimitNOFILE=)"
    );
    FetchError { message, fault: FetchFault::NoDescriptors }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn one_line(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Wrapped(io::Error);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("error for url (http://me:hunter2@host/)")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    fn cannot(error: io::Error) -> FetchError {
        explain("cannot connect to", "host", FetchFault::Connection, &Wrapped(error))
    }

    #[test]
    fn errors_show_the_cause_and_not_the_url() {
        let error = cannot(io::Error::from_raw_os_error(111));
        assert_eq!(error.message, "cannot connect to host: Connection refused (os error 111)");
        assert_eq!(error.fault, FetchFault::Connection);
        let lines = cannot(io::Error::other("a\r\nb"));
        assert_eq!(lines.message, "cannot connect to host: a  b");
    }

    #[test]
    fn the_lack_of_descriptors_and_a_bad_certificate_have_faults_of_their_own() {
        for code in [23, 24] {
            let error = cannot(io::Error::from_raw_os_error(code));
            assert_eq!(error.fault, FetchFault::NoDescriptors);
            assert!(error.message.contains("LimitNOFILE="), "{error}");
        }
        let error = cannot(io::Error::other("invalid peer certificate: Expired"));
        assert_eq!(error.message, "the certificate of host is not valid: Expired");
        assert_eq!(error.fault, FetchFault::Certificate);
    }
}
