//! Reads a response body within limits of size and real time.
//!
//! The announced length serves only to refuse early; memory grows with the bytes received. A body that ends
//! before its announced length or its last chunk is an error. A body that ends with the connection can be
//! truncated unnoticed, unless it is compressed. The bytes stay encoded until they are needed: an unchanged
//! body is recognized without decoding it. Must not know what the bytes mean.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::address::host_of;
use super::decode::{self, Coding, DecodeError};
use super::error::FetchError;
use super::failure::explain;
use crate::clock::{Stopwatch, patience};
use crate::config::params::FetchParams;
use tidewatch_core::time::Span;

/// Minimum mean speed after one `read_timeout`; a slower body is refused.
const SLOWEST_BYTES_PER_SECOND: f64 = 256.0;

/// A body as it was received; empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WireBody {
    bytes: Vec<u8>,
    codings: Vec<Coding>,
    max_body: usize,
}

impl WireBody {
    /// Number of bytes received.
    pub fn wire_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the bytes are compressed, so that decoding may give many more.
    pub fn is_encoded(&self) -> bool {
        !self.codings.is_empty()
    }

    /// A hash of the bytes and of what else decides how they are read.
    pub fn hash(&self, read_as: &[&[u8]]) -> u64 {
        let mut digest = Sha256::new();
        let codings = format!("{:?}", self.codings);
        for part in read_as.iter().copied().chain([codings.as_bytes(), &self.bytes]) {
            // The length prefix makes the encoding of the parts unambiguous.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let hash = digest.finalize();
        u64::from_le_bytes(std::array::from_fn(|at| hash[at]))
    }

    /// Decodes the body. Bounded but maybe slow: large bodies belong on a blocking thread.
    pub fn decoded(self) -> Result<Vec<u8>, DecodeError> {
        if self.codings.is_empty() {
            return Ok(self.bytes);
        }
        decode::decode(self.bytes, &self.codings, self.max_body)
    }
}

/// Reads the body of a response within the limits. The caller sets the total time-out.
pub(super) async fn read(
    response: reqwest::Response,
    params: &FetchParams,
) -> Result<WireBody, FetchError> {
    let codings =
        decode::codings(response.headers()).map_err(|error| FetchError::remote(error.to_string()))?;
    let bytes = read_wire(response, params).await?;
    Ok(WireBody { bytes, codings, max_body: params.max_body })
}

async fn read_wire(mut response: reqwest::Response, params: &FetchParams) -> Result<Vec<u8>, FetchError> {
    let max_body = params.max_body;
    let too_large = || FetchError::remote(format!("the body is larger than max_body ({max_body} bytes)"));
    if response.content_length().is_some_and(|announced| announced > max_body as u64) {
        return Err(too_large());
    }
    let host = host_of(response.url());
    let stopwatch = Stopwatch::start();
    let read_timeout = params.read_timeout.to_duration();
    let mut wire = Vec::new();
    loop {
        let piece = patience(read_timeout, response.chunk())
            .await
            .map_err(|_| {
                FetchError::remote(format!(
                    "{host} stopped in the middle of the body: nothing for {}",
                    Span::from_duration(read_timeout)
                ))
            })?
            .map_err(|error| FetchError {
                reached: true,
                ..explain("the body broke off from", &host, &error)
            })?;
        let Some(piece) = piece else { return Ok(wire) };
        if wire.len() + piece.len() > max_body {
            return Err(too_large());
        }
        wire.extend_from_slice(&piece);
        if is_too_slow(wire.len(), stopwatch.elapsed(), read_timeout) {
            return Err(FetchError::remote(format!(
                "{host} sends too slowly: {} bytes in {}",
                wire.len(),
                Span::from_duration(stopwatch.elapsed())
            )));
        }
    }
}

fn is_too_slow(bytes: usize, elapsed: Duration, grace: Duration) -> bool {
    elapsed > grace && (bytes as f64) < SLOWEST_BYTES_PER_SECOND * elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_that_are_read_otherwise_have_another_hash() {
        let body = |bytes: &[u8], codings| WireBody { bytes: bytes.to_vec(), codings, max_body: 10 };
        let plain = body(b"text", Vec::new());
        assert_eq!(plain.hash(&[b"a", b"b"]), body(b"text", Vec::new()).hash(&[b"a", b"b"]));
        let others = [
            plain.hash(&[b"ab", b""]),
            plain.hash(&[b"a"]),
            body(b"text", vec![Coding::Gzip]).hash(&[b"a", b"b"]),
            body(b"texts", Vec::new()).hash(&[b"a", b"b"]),
        ];
        assert!(others.iter().all(|&other| other != plain.hash(&[b"a", b"b"])));
    }

    #[test]
    fn a_body_is_too_slow_by_its_mean_speed_after_the_grace_time() {
        let grace = Duration::from_secs(10);
        assert!(!is_too_slow(1, Duration::from_secs(9), grace));
        assert!(is_too_slow(1, Duration::from_secs(11), grace));
        assert!(!is_too_slow(256 * 20, Duration::from_secs(20), grace));
        assert!(is_too_slow(256 * 20 - 1, Duration::from_secs(20), grace));
    }
}
