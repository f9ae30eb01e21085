//! Checks that requests go to public addresses only.
//!
//! Prevents that a redirect or a DNS record leads to this machine or its network. Resolves names itself, so
//! that the checked addresses are the ones connected to. Private addresses inside a NAT64 prefix other than
//! the well-known one are not detected. Must not know sources; the caller decides whether private addresses
//! are allowed.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::config::address::{is_private, wrapped};

use super::error::{FetchError, FetchFault};
use super::known_addresses::KnownAddresses;
use super::name_lookups::NameLookups;
use super::resolving::Unresolved;

/// Decides which addresses are public.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    also_public: Vec<IpAddr>,
}

impl Guard {
    /// Creates a guard that also accepts these addresses, for tests on loopback.
    pub fn treating_as_public(addresses: Vec<IpAddr>) -> Self {
        Self { also_public: addresses }
    }

    /// Whether the address is globally reachable.
    ///
    /// ```
    /// # use tidewatch::fetch::guard::Guard;
    /// let public = |text: &str| Guard::default().is_public(text.parse().unwrap());
    /// assert!(public("198.41.0.4"));
    /// assert!(!public("10.0.0.1"));
    /// assert!(!public("::ffff:127.0.0.1"));
    /// ```
    pub fn is_public(&self, address: IpAddr) -> bool {
        let within = match address {
            IpAddr::V6(v6) => wrapped(v6).map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        self.also_public.contains(&within) || !is_private(address)
    }

    /// Checks a URL with an IP address as host, which the resolver never sees.
    pub fn check_literal(&self, url: &Url) -> Result<(), FetchError> {
        let address = match url.host() {
            Some(Host::Ipv4(v4)) => IpAddr::V4(v4),
            Some(Host::Ipv6(v6)) => IpAddr::V6(v6),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        if self.is_public(address) {
            return Ok(());
        }
        let message =
            format!("{address} is a private address; set allow_private = true for it if that is meant");
        Err(FetchError { message, fault: FetchFault::PrivateAddress })
    }
}

/// The name resolves to private addresses only.
#[derive(Debug)]
pub struct OnlyPrivate {
    name: String,
    addresses: Vec<IpAddr>,
}

impl fmt::Display for OnlyPrivate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A hostile name may have hundreds of addresses; only a few are shown.
        let shown: Vec<String> = self.addresses.iter().take(4).map(ToString::to_string).collect();
        write!(
            f,
            "{} resolves only to private addresses ({}); \
             set allow_private = true for it if that is meant",
            self.name,
            shown.join(", ")
        )
    }
}

impl Error for OnlyPrivate {}

/// Resolves names: fixed addresses first, then `localhost`, then the system, whose answers
/// are kept for a minute.
#[derive(Debug, Clone)]
pub struct Resolver(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fixed: Vec<(String, IpAddr)>,
    /// Answers of the system.
    known: KnownAddresses,
    lookups: NameLookups,
    /// `None` if private addresses are allowed.
    guard: Option<Guard>,
}

impl Resolver {
    /// Creates a resolver that returns only public addresses, or all addresses without a guard.
    pub fn new(fixed: &[(String, IpAddr)], guard: Option<Guard>) -> Self {
        let fixed = fixed.iter().map(|(name, address)| (plain(name), *address)).collect();
        Self(Arc::new(Inner {
            fixed,
            known: KnownAddresses::default(),
            lookups: NameLookups::default(),
            guard,
        }))
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let name = plain(name.as_str());
            let found = inner.look_up(&name).await?;
            let is_permitted = |ip: IpAddr| inner.guard.as_ref().is_none_or(|guard| guard.is_public(ip));
            let permitted: Vec<IpAddr> = found.iter().copied().filter(|&ip| is_permitted(ip)).collect();
            if permitted.is_empty() && !found.is_empty() {
                return Err(OnlyPrivate { name, addresses: found.to_vec() }.into());
            }
            // The port of the URL replaces port 0.
            Ok(Box::new(permitted.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

impl Inner {
    async fn look_up(&self, name: &str) -> Result<Arc<[IpAddr]>, Unresolved> {
        let fixed: Arc<[IpAddr]> =
            self.fixed.iter().filter(|(known, _)| known == name).map(|(_, address)| *address).collect();
        if !fixed.is_empty() {
            return Ok(fixed);
        }
        // RFC 6761: these names are always loopback and are not sent to a DNS server.
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into());
        }
        if let Some(known) = self.known.get(name) {
            return Ok(known);
        }
        let found = self.lookups.resolve(name).await.map_err(|error| Unresolved::new(name, &error))?;
        let found: Arc<[IpAddr]> = found.into();
        self.known.keep(name, &found);
        Ok(found)
    }
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::2",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fdff::1",
            "ff02::1",
            "2001:db8::1",
            "3fff::1",
            "2001::1",
            "2001:2::1",
            "2001:1ff::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::192.168.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::1",
            "2002:a00:1::",
            "::8.8.8.8",
            "100::1",
            "5f00::1",
        ] {
            let Ok(address) = text.parse() else { panic!("{text} is no address") };
            assert!(!Guard::default().is_public(address), "{text}");
        }
    }

    #[test]
    fn ordinary_addresses_are_public() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2a00:1450::1",
            "3ffe::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(Guard::default().is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn private_addresses_are_detected_in_every_notation() {
        for text in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://127.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::1]/",
            "http://127.0.0.1./",
        ] {
            let url = Url::parse(text).unwrap();
            let error = Guard::default().check_literal(&url).unwrap_err();
            assert!(error.message.contains("allow_private = true"), "{text}: {error}");
        }
        assert!(Guard::default().check_literal(&Url::parse("http://1.1.1.1/").unwrap()).is_ok());
    }

    async fn addresses(resolver: &Resolver, name: &str) -> Result<Vec<IpAddr>, String> {
        let found = resolver.resolve(name.parse().unwrap()).await.map_err(|error| error.to_string())?;
        Ok(found.map(|address| address.ip()).collect())
    }

    #[tokio::test]
    async fn only_allowed_addresses_are_resolved() {
        let fixed = [
            ("Mixed.Example".to_owned(), "10.0.0.1".parse().unwrap()),
            ("mixed.example".to_owned(), "1.1.1.1".parse().unwrap()),
            ("inside.example".to_owned(), "10.0.0.1".parse().unwrap()),
        ];
        let guarded = Resolver::new(&fixed, Some(Guard::default()));
        assert_eq!(addresses(&guarded, "MIXED.example.").await, Ok(vec!["1.1.1.1".parse().unwrap()]));
        let refused = addresses(&guarded, "inside.example").await.unwrap_err();
        assert!(
            refused.starts_with(
                "inside.example resolves only to private addresses (10.0.0.1); set allow_private"
            ),
            "{refused}"
        );
        assert!(addresses(&guarded, "a.localhost").await.unwrap_err().contains("127.0.0.1, ::1"));
        let open = Resolver::new(&fixed, None);
        assert_eq!(addresses(&open, "mixed.example").await.map(|found| found.len()), Ok(2));
        assert_eq!(addresses(&open, "localhost").await.map(|found| found.len()), Ok(2));
    }
}
