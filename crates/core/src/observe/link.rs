//! Links of items: normalised for fingerprints, absolute for readers.
//!
//! Fingerprints contain links as the feed library gives them. Must not know which items are known.

use std::borrow::Cow;

use url::Url;

use super::limits::MAX_ADDRESS;

/// A link as the library gives it: an absolute one is normalised, another is as written.
pub(super) fn normalised(written: &str) -> Cow<'_, str> {
    if is_normal(written) {
        return Cow::Borrowed(written);
    }
    match Url::parse(written) {
        Ok(url) => Cow::Owned(url.as_str().trim().to_owned()),
        Err(_) => Cow::Borrowed(written.trim()),
    }
}

/// True for most links that need no change. Parsing them costs more than all else that is done for an item.
fn is_normal(link: &str) -> bool {
    let Some(rest) = link.strip_prefix("https://").or_else(|| link.strip_prefix("http://")) else {
        return false;
    };
    let Some((host, path)) = rest.split_once('/') else { return false };
    // Excluded: ports, addresses in numbers, international names, empty labels.
    let host_chars =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    let last_label = host.rsplit_once('.').map_or(host, |(_, label)| label);
    if !host.bytes().all(host_chars)
        || !last_label.starts_with(|c: char| c.is_ascii_lowercase())
        || host.starts_with('.')
        || host.contains("--")
        || host.contains("..")
    {
        return false;
    }
    // Excluded: characters that are escaped somewhere, and segments that may be `.` or `..`.
    let mut after_slash = true;
    path.bytes().all(|byte| {
        let fits = match byte {
            b'.' | b'%' => !after_slash,
            b'-' | b'_' | b'~' | b'!' | b'$' | b'&' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
            | b':' | b'@' | b'/' | b'?' | b'#' => true,
            _ => byte.is_ascii_alphanumeric(),
        };
        after_slash = byte == b'/';
        fits
    })
}

/// An absolute link with a scheme that is safe to open: no `javascript:`, no `file:`. Not a very long one.
pub(super) fn absolute(link: &str, url: Option<&Url>) -> Option<String> {
    if link.is_empty() {
        return None;
    }
    let link = Url::options().base_url(url).parse(link).ok()?;
    let usable = matches!(link.scheme(), "http" | "https") && link.as_str().len() <= MAX_ADDRESS;
    usable.then(|| link.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_links_are_normal_and_others_are_normalised() {
        for link in
            ["https://example.org/", "http://a.b-c.org/2026/11/x_y.html?a=1&b=%20c#d:e", "http://h/a."]
        {
            assert!(is_normal(link), "{link}");
            assert_eq!(normalised(link), link);
        }
        for (link, normal) in [
            ("https://example.org", "https://example.org/"),
            ("HTTP://Example.ORG:80/a b", "http://example.org/a%20b"),
            ("http://a.org/b/../c", "http://a.org/c"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            (" /rel ", "/rel"),
            ("http://", "http://"),
        ] {
            assert!(!is_normal(link), "{link}");
            assert_eq!(normalised(link), normal);
        }
    }

    proptest! {
        /// The library writes a parsed link and trims it.
        #[test]
        fn a_normal_link_is_what_parsing_it_gives(
            link in "https?://[a-z0-9.-]{0,9}(xn--)?[a-z0-9.]{0,6}/([ -~]|[a-z./%2eE?#]|é){0,16}"
        ) {
            let parsed = Url::parse(&link).map_or(link.clone(), String::from);
            if is_normal(&link) {
                prop_assert_eq!(&parsed, &link);
            }
            prop_assert_eq!(normalised(&link), parsed.trim());
        }
    }
}
