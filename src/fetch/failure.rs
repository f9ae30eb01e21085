//! Formats errors of the HTTP library in one line.
//!
//! `reqwest`'s errors show the URL and hide the cause; this finds the cause in the error chain. Must not
//! show URLs: they may contain user names, passwords and tokens.

use std::error::Error;

use super::error::FetchError;
use super::guard::OnlyPrivate;

impl FetchError {
    /// An error after the host was reached, or one that does not concern the connection.
    pub(super) fn remote(message: impl Into<String>) -> Self {
        Self { message: message.into(), reached: true }
    }

    /// A failure to reach the host.
    pub(super) fn unreachable(message: impl Into<String>) -> Self {
        Self { message: message.into(), reached: false }
    }
}

/// Formats an error that occurred while `doing` something with `host`.
pub(super) fn explain(doing: &str, host: &str, error: &(dyn Error + 'static)) -> FetchError {
    if let Some(refused) = chain(error).find_map(|cause| cause.downcast_ref::<OnlyPrivate>()) {
        return FetchError::remote(refused.to_string());
    }
    // The outermost error is skipped because it shows the URL.
    let cause = chain(error).skip(1).last().map_or_else(|| "unknown cause".to_owned(), one_line);
    FetchError::unreachable(format!("{doing} {host}: {cause}"))
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
    fn errors_show_the_cause_and_not_the_url() {
        let error = explain("cannot connect to", "host", &Wrapped(io::Error::from_raw_os_error(111)));
        assert_eq!(error.message, "cannot connect to host: Connection refused (os error 111)");
        assert!(!error.reached);
        let lines = explain("cannot", "host", &Wrapped(io::Error::other("a\r\nb")));
        assert_eq!(lines.message, "cannot host: a  b");
    }
}
