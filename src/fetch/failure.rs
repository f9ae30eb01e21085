//! Errors of the client in one line.
//!
//! Exists because `reqwest`'s errors show the URL and hide the cause. Knows how to find the cause
//! in a chain of errors, and which causes look like our own network. Must not show URLs: they may
//! hold user names, passwords and tokens.

use std::error::Error;
use std::io::ErrorKind;

use super::FetchError;
use super::guard::OnlyPrivate;

impl FetchError {
    /// A failure that is the source's business.
    pub(super) fn remote(message: impl Into<String>) -> Self {
        Self { message: message.into(), local: false }
    }
}

/// Explains an error that came while `doing` something with `host`.
pub(super) fn explain(doing: &str, host: &str, error: &(dyn Error + 'static)) -> FetchError {
    if let Some(refused) = chain(error).find_map(|cause| cause.downcast_ref::<OnlyPrivate>()) {
        return FetchError::remote(refused.to_string());
    }
    // The outermost error is the one that would show the URL.
    let cause = chain(error).skip(1).last().map_or_else(|| "unknown cause".to_owned(), one_line);
    FetchError { message: format!("{doing} {host}: {cause}"), local: chain(error).any(looks_local) }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn one_line(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    line.trim().to_owned()
}

/// No route, no network, or a resolver that could not be asked. The resolver's codes reach us as
/// text only; and it calls it a temporary failure too when one domain's name servers are broken,
/// so this is a hint, not a verdict.
fn looks_local(error: &(dyn Error + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<std::io::Error>() else { return false };
    match error.kind() {
        ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown | ErrorKind::HostUnreachable => true,
        _ => {
            let text = error.to_string();
            text.contains("failed to lookup address information")
                && (text.contains("Temporary failure") || text.contains("Try again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::io;

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

    #[test]
    fn the_cause_is_told_and_the_url_is_not() {
        let error = explain("cannot connect to", "host", &Wrapped(io::Error::from_raw_os_error(111)));
        assert_eq!(error.message, "cannot connect to host: Connection refused (os error 111)");
        assert!(!error.local);
        let lines = explain("cannot", "host", &Wrapped(io::Error::other("a\r\nb")));
        assert_eq!(lines.message, "cannot host: a  b");
    }

    #[test]
    fn our_own_network_is_guessed() {
        for (error, local) in [
            (io::Error::from_raw_os_error(101), true),
            (io::Error::from_raw_os_error(113), true),
            (io::Error::from_raw_os_error(100), true),
            (
                io::Error::other(
                    "failed to lookup address information: Temporary failure in name resolution",
                ),
                true,
            ),
            (io::Error::other("failed to lookup address information: Name or service not known"), false),
            (io::Error::from_raw_os_error(110), false),
        ] {
            let text = error.to_string();
            assert_eq!(explain("x", "y", &Wrapped(error)).local, local, "{text}");
        }
    }
}
