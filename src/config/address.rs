//! Addresses of sources.
//!
//! Exists because a configuration (or an imported list of feeds) must not make the daemon knock on
//! doors inside its own network unasked. Knows URLs and which addresses are not public; must not
//! resolve names: what a name points to is checked again when it is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Why a text is no address that may be polled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL at all.
    #[error("the URL can't be read: {0}")]
    Malformed(String),
    /// No `https://` in front.
    #[error("the URL has no scheme")]
    NoScheme,
    /// Some other scheme.
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
    /// What to do about it.
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

/// Reads the address of a source.
pub fn read(text: &str, allow_private: bool) -> Result<Url, AddressError> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(AddressError::Malformed("it holds white space or control characters".to_owned()));
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => AddressError::NoScheme,
        other => AddressError::Malformed(other.to_string()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        // `example.org:8080/feed` reads as a scheme called `example.org`.
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

/// A name that always means this machine.
pub fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// An address that no public site has: loopback, private, link-local, shared, unspecified,
/// multicast, reserved; also when wrapped into IPv6.
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => is_private_v6(ip),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    let last = || {
        let [.., a, b, c, d] = ip.octets();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // ::, ::1, IPv4-compatible and IPv4-mapped addresses.
        [0, 0, 0, 0, 0, 0, ..] => ip.is_loopback() || ip.is_unspecified() || is_private_v4(last()),
        [0, 0, 0, 0, 0, 0xffff, ..] => is_private_v4(last()),
        // Translated by NAT64.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_private_v4(last()),
        // 6to4 carries the IPv4 address in front.
        [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            is_private_v4(Ipv4Addr::new(a, b, c, d))
        }
        [first, ..] => {
            (first & 0xfe00) == 0xfc00
                || (first & 0xffc0) == 0xfe80
                || (first & 0xffc0) == 0xfec0
                || (first & 0xff00) == 0xff00
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_pass() {
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
    fn private_addresses_need_consent() {
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
    fn other_faults() {
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
