//! What of an address is sent, and what errors show of it.

use url::{Host, Url};

/// Removes what is not sent as part of a URL: user and password (ours go into a header, a
/// redirect's are not followed) and the fragment.
pub(super) fn strip(url: &mut Url) {
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// What errors call a server: host, and port where it is unusual.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host().unwrap_or(Host::Domain("nowhere"));
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    }
}
