//! Groups hosts that share request limits.
//!
//! One operator often serves many names, so limits apply to the registrable domain. The private section of
//! the public suffix list counts: `alice.github.io` and `bob.github.io` are two groups, so that probes of
//! one user's page do not delay another's. Must not know the limits of a group.

use url::{Host, Url};

use tidewatch_core::engine::params::HostGroup;

/// Suffixes of local names; these are grouped by host and port.
const LOCAL: [&str; 9] =
    ["localhost", "local", "internal", "home.arpa", "lan", "home", "corp", "intranet", "private"];

/// The registrable domain of a public name (`feeds.example.co.uk` → `example.co.uk`); host and
/// port of anything else (addresses, `localhost`, single labels, names of the local network).
///
/// ```
/// # use tidewatch::fetch::host_group::host_group;
/// let group = |text| host_group(&url::Url::parse(text).unwrap());
/// assert_eq!(&*group("https://feeds.a.example.co.uk/x").key, "example.co.uk");
/// assert_eq!(&*group("http://127.0.0.1:8080/").key, "127.0.0.1:8080");
/// ```
pub fn host_group(url: &Url) -> HostGroup {
    let port = url.port_or_known_default().unwrap_or(0);
    let (key, public) = match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            if is_local(&name) {
                (format!("{name}:{port}"), false)
            } else {
                // A public suffix is its own group.
                (psl::domain_str(&name).map_or_else(|| name.clone(), str::to_owned), true)
            }
        }
        Some(address) => (format!("{address}:{port}"), false),
        None => (format!(":{port}"), false),
    };
    HostGroup { key: key.into(), public }
}

fn is_local(name: &str) -> bool {
    !name.contains('.')
        || LOCAL.iter().any(|local| {
            name.strip_suffix(local).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_owner_share_a_group() {
        for (text, group) in [
            ("https://example.com/feed", "example.com"),
            ("https://a.b.EXAMPLE.com:8443/feed", "example.com"),
            ("http://example.com./", "example.com"),
            ("https://feeds.a.example.co.uk/", "example.co.uk"),
            ("http://a.example.test/", "example.test"),
            ("http://b.example.test:81/", "example.test"),
            ("http://www.site.example/", "site.example"),
            ("https://alice.github.io/feed.xml", "alice.github.io"),
            ("https://x.alice.github.io/feed.xml", "alice.github.io"),
            ("https://github.io/", "github.io"),
            ("https://notlocal.com/", "notlocal.com"),
            ("https://www.bücher.de/", "xn--bcher-kva.de"),
        ] {
            assert_eq!(&*host_group(&Url::parse(text).unwrap()).key, group, "{text}");
        }
    }

    #[test]
    fn local_hosts_are_grouped_by_host_and_port() {
        for (text, group) in [
            ("http://127.0.0.1/", "127.0.0.1:80"),
            ("https://[::1]:8443/", "[::1]:8443"),
            ("http://localhost:3000/", "localhost:3000"),
            ("http://a.localhost/", "a.localhost:80"),
            ("http://nas/", "nas:80"),
            ("https://printer.local/", "printer.local:443"),
            ("https://wiki.corp.internal/", "wiki.corp.internal:443"),
            ("https://tv.home.arpa/", "tv.home.arpa:443"),
        ] {
            assert_eq!(&*host_group(&Url::parse(text).unwrap()).key, group, "{text}");
        }
    }
}
