//! Reads a response body within limits of size and real time.
//!
//! The announced length serves only to refuse early; memory grows with the bytes received. A body that ends
//! before its announced length or its last chunk is an error. A body that ends with the connection can be
//! truncated unnoticed, unless it is compressed. Must not know what the bytes mean.

use std::time::Duration;

use super::address::host_of;
use super::decode::{self, Coding};
use super::error::FetchError;
use super::failure::explain;
use crate::clock::{Stopwatch, patience};
use crate::config::params::FetchParams;
use tidewatch_core::time::Span;

/// Minimum mean speed after one `read_timeout`; a slower body is refused.
const SLOWEST_BYTES_PER_SECOND: f64 = 256.0;

/// A decoded body, and its size on the wire.
#[derive(Debug)]
pub struct Body {
    /// Decoded bytes.
    pub bytes: Vec<u8>,
    /// Number of bytes received.
    pub wire_bytes: u64,
}

/// Reads and decodes the body of a response within the limits. The caller sets the total time-out.
pub async fn read(response: reqwest::Response, params: &FetchParams) -> Result<Body, FetchError> {
    let codings =
        decode::codings(response.headers()).map_err(|error| FetchError::remote(error.to_string()))?;
    let wire = read_wire(response, params).await?;
    let wire_bytes = wire.len() as u64;
    let bytes =
        if codings.is_empty() { wire } else { decode_blocking(wire, codings, params.max_body).await? };
    Ok(Body { bytes, wire_bytes })
}

/// Decodes on a blocking thread: decoding a hostile body is bounded but may be slow.
async fn decode_blocking(
    wire: Vec<u8>,
    codings: Vec<Coding>,
    max_body: usize,
) -> Result<Vec<u8>, FetchError> {
    match tokio::task::spawn_blocking(move || decode::decode(wire, &codings, max_body)).await {
        Ok(decoded) => decoded.map_err(|error| FetchError::remote(error.to_string())),
        // A panic of the decoder fails only this probe.
        Err(_) => Err(FetchError::remote("the body broke its decoder")),
    }
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
    fn a_body_is_too_slow_by_its_mean_speed_after_the_grace_time() {
        let grace = Duration::from_secs(10);
        assert!(!is_too_slow(1, Duration::from_secs(9), grace));
        assert!(is_too_slow(1, Duration::from_secs(11), grace));
        assert!(!is_too_slow(256 * 20, Duration::from_secs(20), grace));
        assert!(is_too_slow(256 * 20 - 1, Duration::from_secs(20), grace));
    }
}
