//! Reads a response body within limits of size and real time.
//!
//! The announced length serves only to refuse early; memory grows with the bytes received. A body that ends
//! before its announced length or its last chunk is an error. A body that ends with the connection can be
//! truncated unnoticed, unless it is compressed. The bytes stay encoded until they are needed: an unchanged
//! body is recognized without decoding it. Must not know what the bytes mean.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::address::host_of;
use super::body_memory::{BodyMemory, BodyRoom};
use super::decode::{self, Coding, DecodeError};
use super::error::{FetchError, FetchFault};
use super::failure::explain;
use super::own_waits::OwnWaits;
use crate::clock::{Stopwatch, patience};
use crate::config::params::FetchParams;
use tidewatch_core::time::Span;

/// Minimum mean speed after one `read_timeout`; a slower body is refused.
const SLOWEST_BYTES_PER_SECOND: f64 = 256.0;

/// First capacity for the bytes of a body.
const SMALLEST_CAPACITY: usize = 8 << 10;

/// Bytes that are hashed between two checks of the time.
const HASHED_AT_ONCE: usize = 1 << 20;

/// Why the body of an answer was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnreadBody {
    /// It is larger than `max_body`.
    #[error("the body is larger than max_body ({0} bytes); raise [fetch] max_body to read it")]
    TooLarge(usize),
    /// Other bodies took all memory. No fault of the source.
    #[error("other large bodies took all memory for {0}; it is probed again later")]
    NoRoom(Span),
}

/// A body as it was received; empty by default.
#[derive(Debug, Default)]
pub struct WireBody {
    bytes: Vec<u8>,
    codings: Vec<Coding>,
    max_body: usize,
    room: BodyRoom,
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

    /// A hash of the bytes and of what else decides how they are read; `None` if it takes too long.
    pub fn hash(&self, read_as: &[&[u8]], out_of_time: &dyn Fn() -> bool) -> Option<u64> {
        let mut digest = Sha256::new();
        let codings = format!("{:?}", self.codings);
        for part in read_as.iter().copied().chain([codings.as_bytes(), &self.bytes]) {
            // The length prefix makes the encoding of the parts unambiguous.
            digest.update((part.len() as u64).to_le_bytes());
            for piece in part.chunks(HASHED_AT_ONCE) {
                if out_of_time() {
                    return None;
                }
                digest.update(piece);
            }
        }
        let hash = digest.finalize();
        Some(u64::from_le_bytes(std::array::from_fn(|at| hash[at])))
    }

    /// Waits until there is room for all that decoding may give.
    pub async fn make_room(&mut self) {
        if self.is_encoded() {
            // The input of each coding is held together with its output.
            let decoded = decode::most_decoded(self.bytes.len(), self.max_body);
            self.room.grow(self.bytes.len() + decoded * self.codings.len()).await;
        }
    }

    /// Decodes the body. Bounded but maybe slow: large bodies belong on a blocking thread. Returns with it the room
    /// that it takes, to be kept for as long as what is made of it.
    pub fn decoded(self, out_of_time: &dyn Fn() -> bool) -> Result<(Vec<u8>, BodyRoom), DecodeError> {
        let Self { bytes, codings, max_body, mut room } = self;
        if codings.is_empty() {
            return Ok((bytes, room));
        }
        let decoded = decode::decode(bytes, &codings, max_body, out_of_time)?;
        room.shrink(decoded.len());
        Ok((decoded, room))
    }
}

/// A transfer that fails after a wait for memory of this length may have failed because of it: servers have time-outs
/// too.
const WAIT_THAT_HARMS: Duration = Duration::from_secs(1);

/// Reads the body of a response within the limits. The caller sets the total time-out.
pub(super) async fn read(
    response: reqwest::Response,
    params: &FetchParams,
    memory: &BodyMemory,
    waits: &OwnWaits,
) -> Result<Result<WireBody, UnreadBody>, FetchError> {
    let codings =
        decode::codings(response.headers()).map_err(|error| FetchError::remote(error.to_string()))?;
    let body = WireBody { bytes: Vec::new(), codings, max_body: params.max_body, room: memory.for_body() };
    match read_wire(response, params, body, waits).await {
        Err(_) if waits.total() >= WAIT_THAT_HARMS => {
            Ok(Err(UnreadBody::NoRoom(Span::from_duration(waits.total()))))
        }
        read => read,
    }
}

async fn read_wire(
    mut response: reqwest::Response,
    params: &FetchParams,
    mut body: WireBody,
    waits: &OwnWaits,
) -> Result<Result<WireBody, UnreadBody>, FetchError> {
    let max_body = params.max_body;
    let too_large = Ok(Err(UnreadBody::TooLarge(max_body)));
    if response.content_length().is_some_and(|announced| announced > max_body as u64) {
        return too_large;
    }
    let host = host_of(response.url());
    let stopwatch = Stopwatch::start();
    let read_timeout = params.read_timeout.to_duration();
    let wire = &mut body.bytes;
    loop {
        let piece = patience(read_timeout, response.chunk())
            .await
            .map_err(|_| {
                FetchError::remote(format!(
                    "{host} stopped in the middle of the body: nothing for {}",
                    Span::from_duration(read_timeout)
                ))
            })?
            .map_err(|error| explain("the body broke off from", &host, FetchFault::Answer, &error))?;
        let Some(piece) = piece else { return Ok(Ok(body)) };
        let length = wire.len() + piece.len();
        if length > max_body {
            return too_large;
        }
        if length > wire.capacity() {
            let capacity = length.next_power_of_two().max(SMALLEST_CAPACITY).min(max_body);
            let room = body.room.grow(capacity);
            if waits.wait(read_timeout, room).await.is_err() {
                return Ok(Err(UnreadBody::NoRoom(params.read_timeout)));
            }
            wire.reserve_exact(capacity - wire.len());
        }
        wire.extend_from_slice(&piece);
        let taken = stopwatch.elapsed().saturating_sub(waits.total());
        if is_too_slow(wire.len(), taken, read_timeout) {
            return Err(FetchError::remote(format!(
                "{host} sends too slowly: {} bytes in {}",
                wire.len(),
                Span::from_duration(taken)
            )));
        }
    }
}

fn is_too_slow(bytes: usize, elapsed: Duration, grace: Duration) -> bool {
    elapsed > grace && (bytes as f64) < SLOWEST_BYTES_PER_SECOND * elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn equal_bytes_that_are_read_otherwise_have_another_hash() {
        let hash = |bytes: &[u8], codings, read_as: &[&[u8]]| {
            let room = BodyRoom::default();
            let body = WireBody { bytes: bytes.to_vec(), codings, max_body: 10, room };
            body.hash(read_as, &|| false).unwrap()
        };
        let plain = hash(b"text", Vec::new(), &[b"a", b"b"]);
        assert_eq!(plain, hash(b"text", Vec::new(), &[b"a", b"b"]));
        let others = [
            hash(b"text", Vec::new(), &[b"ab", b""]),
            hash(b"text", Vec::new(), &[b"a"]),
            hash(b"text", vec![Coding::Gzip], &[b"a", b"b"]),
            hash(b"texts", Vec::new(), &[b"a", b"b"]),
        ];
        assert!(others.iter().all(|&other| other != plain));
    }

    #[test]
    fn hashing_ends_when_time_is_up() {
        let (bytes, room) = (vec![0; 5 * HASHED_AT_ONCE], BodyRoom::default());
        let body = WireBody { bytes, codings: Vec::new(), max_body: usize::MAX, room };
        let checks = Cell::new(0);
        let third = || checks.replace(checks.get() + 1) >= 2;
        assert_eq!(body.hash(&[], &third), None);
        assert_eq!(checks.get(), 3, "it is asked for each part");
        assert!(body.hash(&[], &|| false).is_some());
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
