//! Addresses of sources.
//!
//! A configuration or an imported feed list must not make the daemon send requests into its own network
//! without permission. This module parses URLs and recognises addresses that are not public. It
//! resolves no names; `fetch` checks the resolved address again when it connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Why a text is not an address that may be polled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL.
    #[error("the URL can't be read: {0}")]
    Malformed(String),
    /// No scheme such as `https://`.
    #[error("the URL has no scheme")]
    NoScheme,
    /// A scheme other than `http` and `https`.
    #[error("`{0}` addresses can't be polled")]
    Scheme(String),
    /// `user:password@`.
    #[error("the URL holds a user name or password")]
    Userinfo,
    /// A host that is not on the public internet.
    #[error("`{0}` is a private address")]
    Private(String),
}

impl AddressError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "expected a URL such as https://example.org/feed.xml",
            Self::NoScheme => "start it with https:// or http://",
            Self::Scheme(_) => "expected a URL that starts with https:// or http://",
            Self::Userinfo => "take it out and put it into `headers`, as Authorization",
            Self::Private(_) => "set `allow_private = true` for this source if that is meant",
        }
    }
}

/// The address of a source, as text: most are parsed seldom, and a parsed one takes 80 bytes more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceAddress(Box<str>);

impl From<Url> for SourceAddress {
    fn from(url: Url) -> Self {
        Self(String::from(url).into_boxed_str())
    }
}

impl SourceAddress {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed address.
    pub fn parsed(&self) -> Url {
        Url::parse(&self.0).expect("made from a URL")
    }
}

/// Parses the address of a source.
pub fn read(text: &str, allow_private: bool) -> Result<Url, AddressError> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(AddressError::Malformed("it holds white space or control characters".to_owned()));
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => AddressError::NoScheme,
        other => AddressError::Malformed(other.to_string()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        // The URL parser takes the `example.org` in `example.org:8080/feed` for a scheme.
        return Err(match url.scheme().contains('.') {
            true => AddressError::NoScheme,
            false => AddressError::Scheme(url.scheme().to_owned()),
        });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Userinfo);
    }
    let private = match url.host() {
        None => return Err(AddressError::Malformed("it names no host".to_owned())),
        Some(Host::Domain(name)) => is_local_name(name),
        Some(Host::Ipv4(ip)) => is_private(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => is_private(IpAddr::V6(ip)),
    };
    if private && !allow_private {
        return Err(AddressError::Private(url.host_str().unwrap_or_default().to_owned()));
    }
    Ok(url)
}

/// The address without user, password and fragment, and without the query if that is a secret.
pub fn shown(address: &str, secret_query: bool) -> String {
    let Ok(mut url) = Url::parse(address) else { return "an address that is no URL".to_owned() };
    url.set_fragment(None);
    if secret_query {
        url.set_query(None);
    }
    // These fail only without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// Whether the name always resolves to this machine.
pub fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether no public site can have this address: loopback, private, link-local, shared, unspecified,
/// multicast or reserved, also when embedded in IPv6.
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => match wrapped(ip) {
            Some(v4) => is_private_v4(v4),
            None => is_private_v6(ip),
        },
    }
}

/// The IPv4 address embedded in an IPv6 address: mapped, NAT64 (well-known prefix) or 6to4.
pub fn wrapped(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

/// Lists the global blocks, not the special ones, so that an unknown block counts as private.
fn is_private_v6(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        // IETF protocol assignments: Teredo, benchmarking, ORCHID.
        [0x2001, second, ..] if second < 0x0200 => true,
        // Documentation.
        [0x2001, 0x0db8, ..] => true,
        [0x3fff, second, ..] if second < 0x1000 => true,
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || match ip.octets() {
            [0, ..] => true,
            // The host of a virtual machine at Microsoft's cloud, which answers inside it only.
            [168, 63, 129, 16] => true,
            // Carrier-grade NAT.
            [100, b, ..] => b & 0xc0 == 64,
            // Protocol assignments and 6to4 relays.
            [192, 0, 0, _] | [192, 88, 99, _] => true,
            // Benchmarking.
            [198, 18 | 19, ..] => true,
            [a, ..] => a >= 240,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_accepted() {
        for text in [
            "https://lwn.net/headlines/rss",
            "http://93.184.216.34/feed",
            "https://[2606:2800:220:1::1]/x",
            "HTTPS://Example.ORG:8443/?a=1#b",
            "https://müller.example/feed",
            "https://localhost.example.org/",
        ] {
            assert!(read(text, false).is_ok(), "{text}");
        }
    }

    #[test]
    fn shown_addresses_have_no_secrets() {
        let address = "https://me:hunter2@a.example/feed?token=hunter2#x";
        assert_eq!(shown(address, true), "https://a.example/feed");
        assert_eq!(shown(address, false), "https://a.example/feed?token=hunter2");
        assert_eq!(shown("hunter2", false), "an address that is no URL");
    }

    #[test]
    fn private_addresses_need_allow_private() {
        for text in [
            "http://localhost/",
            "http://LOCALHOST.:80/",
            "http://api.localhost/",
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://10.0.0.8/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest",
            "http://168.63.129.16/machine",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
        ] {
            assert!(matches!(read(text, false), Err(AddressError::Private(_))), "{text}");
            assert!(read(text, true).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_faults_are_named() {
        for (text, error) in [
            ("lwn.net/rss", AddressError::NoScheme),
            ("lwn.net:8080/rss", AddressError::NoScheme),
            ("", AddressError::NoScheme),
            ("ftp://example.org/", AddressError::Scheme("ftp".into())),
            ("file:///etc/passwd", AddressError::Scheme("file".into())),
            ("https://me:pw@example.org/", AddressError::Userinfo),
            ("https://me@example.org/", AddressError::Userinfo),
        ] {
            assert_eq!(read(text, true), Err(error), "{text}");
        }
        for text in ["https://", "https://exa mple.org/", "https://example.org:99999/", "https://a.b/\n"] {
            assert!(matches!(read(text, true), Err(AddressError::Malformed(_))), "{text}");
        }
    }
}
