//! The parts of a URL that are sent, and the parts that errors show.

use url::{Host, Url};

/// Removes the fragment, user and password. Configured credentials go into a header; those of a redirect
/// are ignored.
pub(super) fn strip(url: &mut Url) {
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// The server's name in errors: the host, and a port that is not the default.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host().unwrap_or(Host::Domain("nowhere"));
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    }
}
