//! Reads header values and keys that are secrets.
//!
//! Secrets are read only here, from files or systemd credentials, just before they are used. Header values
//! are marked so that `Debug` does not show them. Reads synchronously: callers use a blocking thread. Must
//! not show, log or keep a secret.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::config::secret::Secret;

/// Longest secret in bytes; a longer file is probably the wrong one.
const LONGEST: u64 = 16 * 1024;

/// Headers that cannot be configured: another value would break framing, decoding or conditional requests.
const OURS: [HeaderName; 12] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::RANGE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// An error in a configured header or secret. Never contains the value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Not a header's name.
    #[error("`{0}` is not a header name")]
    Name(String),
    /// A header that cannot be configured.
    #[error("the header `{0}` is set by tidewatch itself and cannot be configured")]
    Ours(HeaderName),
    /// The value has bytes that are not allowed in a header, such as a line break.
    #[error("the value for the header `{0}` has characters that a header cannot carry")]
    Value(HeaderName),
    /// The file is empty.
    #[error("{0} is empty; it should hold a secret")]
    Empty(PathBuf),
    /// The file is too long to hold a secret.
    #[error("{0} is longer than 16 KiB; it should hold nothing but a secret")]
    TooLong(PathBuf),
    /// The file could not be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// A credential is configured, but systemd provides none.
    #[error(
        "the credential `{0}` needs $CREDENTIALS_DIRECTORY; use LoadCredential= in the unit, or a file"
    )]
    NoCredentials(String),
    /// A credential's name must be a plain file name.
    #[error("`{0}` is not the name of a credential")]
    CredentialName(String),
}

/// Reads all configured headers. `credentials` is systemd's `$CREDENTIALS_DIRECTORY`.
pub fn read_headers(
    headers: &[(String, Secret)],
    credentials: Option<&Path>,
) -> Result<HeaderMap, SecretError> {
    let mut map = HeaderMap::new();
    for (name, secret) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| SecretError::Name(name.clone()))?;
        if OURS.contains(&name) {
            return Err(SecretError::Ours(name));
        }
        let bytes = read_one(secret, credentials)?;
        let mut value = HeaderValue::from_bytes(&bytes).map_err(|_| SecretError::Value(name.clone()))?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// Reads one secret, without the white space around it. The caller must keep it out of `Debug`.
pub fn read_one(secret: &Secret, credentials: Option<&Path>) -> Result<Vec<u8>, SecretError> {
    let bytes = match secret {
        Secret::Literal(text) => text.clone().into_bytes(),
        Secret::File(path) => read(path)?,
        Secret::Credential(credential) => read(&credential_path(credential, credentials)?)?,
    };
    Ok(bytes.trim_ascii().to_vec())
}

fn credential_path(name: &str, directory: Option<&Path>) -> Result<PathBuf, SecretError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(plain)), None) if plain == name => {}
        _ => return Err(SecretError::CredentialName(name.to_owned())),
    }
    let directory = directory.ok_or_else(|| SecretError::NoCredentials(name.to_owned()))?;
    Ok(directory.join(name))
}

fn read(path: &Path) -> Result<Vec<u8>, SecretError> {
    let unreadable = |error| SecretError::Unreadable(path.to_owned(), error);
    let mut bytes = Vec::new();
    File::open(path).map_err(unreadable)?.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        return Err(SecretError::TooLong(path.to_owned()));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(SecretError::Empty(path.to_owned()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, secret: Secret, credentials: Option<&Path>) -> Result<HeaderMap, SecretError> {
        read_headers(&[(name.to_owned(), secret)], credentials)
    }

    #[test]
    fn files_credentials_and_literals_are_read_and_hidden() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), "Bearer hunter2\n").unwrap();
        for secret in [
            Secret::Literal("Bearer hunter2".into()),
            Secret::File(directory.path().join("token")),
            Secret::Credential("token".into()),
        ] {
            let map = one("Authorization", secret, Some(directory.path())).unwrap();
            assert_eq!(map[header::AUTHORIZATION].as_bytes(), b"Bearer hunter2");
            assert!(!format!("{map:?}").contains("hunter2"));
        }
    }

    #[test]
    fn errors_name_the_file_and_not_the_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "hunter2\nhunter3").unwrap();
        let error = one("X-Key", Secret::File(path.clone()), None).unwrap_err();
        assert!(matches!(error, SecretError::Value(_)));
        assert!(!format!("{error} {error:?}").contains("hunter"));
        std::fs::write(&path, " \n").unwrap();
        assert!(matches!(one("X-Key", Secret::File(path.clone()), None), Err(SecretError::Empty(_))));
        std::fs::write(&path, vec![b'x'; 20_000]).unwrap();
        assert!(matches!(one("X-Key", Secret::File(path), None), Err(SecretError::TooLong(_))));
        let missing = one("X-Key", Secret::File(directory.path().join("nothing")), None).unwrap_err();
        assert!(missing.to_string().contains("nothing: No such file"), "{missing}");
    }

    #[test]
    fn credentials_stay_in_their_directory() {
        let here = Some(Path::new("/nowhere"));
        for name in ["../token", "a/b", "/etc/passwd", "..", ".", "", "a/"] {
            let error = one("X-Key", Secret::Credential(name.into()), here).unwrap_err();
            assert!(matches!(error, SecretError::CredentialName(_)), "{name}");
        }
        let error = one("X-Key", Secret::Credential("token".into()), None).unwrap_err();
        assert!(matches!(error, SecretError::NoCredentials(_)));
    }

    #[test]
    fn reserved_headers_cannot_be_configured() {
        assert!(matches!(
            one("if-none-match", Secret::Literal("x".into()), None),
            Err(SecretError::Ours(_))
        ));
        assert!(matches!(one("no spaces", Secret::Literal("x".into()), None), Err(SecretError::Name(_))));
    }
}
