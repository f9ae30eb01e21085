//! Decodes content codings within limits of size and ratio.
//!
//! Supports gzip, deflate (with and without the zlib header), brotli and zstd. A stream that ends early is
//! an error, even if the decoder accepts it: half a feed would pass for a feed with missing items.
//! Synchronous with bounded work: the caller uses a blocking thread. Must not know where the bytes come
//! from.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Largest number of nested codings.
const MOST_CODINGS: usize = 2;

/// Largest expansion ratio. Text reaches about 20, repetitive text about 50; more indicates a decompression
/// bomb.
const MOST_RATIO: u64 = 100;

/// Decoded size below which the ratio is not checked, in bytes.
const RATIO_MATTERS: u64 = 1024 * 1024;

/// Largest number of members or frames of a body. Each costs time even if it is empty.
const MOST_MEMBERS: usize = 1_000;

/// The zstd window size that RFC 9659 requires of decoders.
const ZSTD_WINDOW: usize = 8 * 1024 * 1024;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// gzip, any number of members.
    Gzip,
    /// zlib, or the raw deflate stream that some servers send instead.
    Deflate,
    /// brotli.
    Brotli,
    /// Zstandard, any number of frames.
    Zstd,
}

/// The error of a body that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// A coding that was not requested.
    #[error("the body is encoded as `{0}`, which was not asked for")]
    Unknown(String),
    /// Too many nested codings.
    #[error("the body is encoded {0} times over; at most {MOST_CODINGS} are accepted")]
    TooMany(usize),
    /// Larger than `max_body`.
    #[error("the body is larger than max_body ({0} bytes) after decompression")]
    TooLarge(usize),
    /// Too many gzip members or zstd frames.
    #[error("the {0:?} body has more than {MOST_MEMBERS} members")]
    TooManyMembers(Coding),
    /// Decoding takes too much time.
    #[error("the {0:?} body takes too long to decode")]
    TooSlow(Coding),
    /// The expansion ratio is too large.
    #[error("the body expands more than {MOST_RATIO} times; it looks like a decompression bomb")]
    Bomb,
    /// The stream ends early.
    #[error("the {0:?} body ends too early")]
    Truncated(Coding),
    /// The stream is invalid. For brotli, this includes an early end.
    #[error("the {0:?} body is corrupt or cut short")]
    Corrupt(Coding),
}

/// The codings of a response, in the order of their application.
pub fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, DecodeError> {
    let mut found = Vec::new();
    for line in headers.get_all(CONTENT_ENCODING) {
        let line = String::from_utf8_lossy(line.as_bytes());
        for name in line.split(',').map(str::trim) {
            found.push(match name.to_ascii_lowercase().as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "zstd" => Coding::Zstd,
                // The name is untrusted: shortened and escaped for the log.
                _ => return Err(DecodeError::Unknown(name.escape_debug().take(40).collect())),
            });
        }
    }
    if found.len() > MOST_CODINGS {
        return Err(DecodeError::TooMany(found.len()));
    }
    Ok(found)
}

/// The most bytes that one coding may give for a body of this many bytes on the wire.
pub(super) fn most_decoded(wire_bytes: usize, max_body: usize) -> usize {
    let most = wire_bytes as u64 * MOST_RATIO;
    max_body.min(usize::try_from(most.max(RATIO_MATTERS)).unwrap_or(usize::MAX))
}

/// Decodes `codings` in reverse order; no stage may exceed `max_body`.
pub fn decode(
    wire: Vec<u8>,
    codings: &[Coding],
    max_body: usize,
    out_of_time: &dyn Fn() -> bool,
) -> Result<Vec<u8>, DecodeError> {
    let wire_bytes = wire.len() as u64;
    let mut bytes = wire;
    for &coding in codings.iter().rev() {
        let mut out = DecodedOutput { bytes: Vec::new(), wire_bytes, max_body, coding, out_of_time };
        match coding {
            Coding::Gzip => gunzip(&bytes, &mut out)?,
            Coding::Deflate => {
                // RFC 1950: the header is a multiple of 31 and has method 8.
                let zlib = matches!(bytes[..], [a, b, ..]
                    if a & 0x0f == 8 && u16::from_be_bytes([a, b]).is_multiple_of(31));
                inflate(&bytes, zlib, &mut out)?;
            }
            Coding::Brotli => {
                let reader = brotli_decompressor::Decompressor::new(&bytes[..], 16 * 1024);
                copy(reader, Coding::Brotli, &mut out)?;
            }
            Coding::Zstd => unzstd(&bytes, &mut out)?,
        }
        bytes = out.bytes;
    }
    Ok(bytes)
}

/// Decoded bytes and their limits.
struct DecodedOutput<'c> {
    bytes: Vec<u8>,
    wire_bytes: u64,
    max_body: usize,
    coding: Coding,
    out_of_time: &'c dyn Fn() -> bool,
}

impl DecodedOutput<'_> {
    /// Asked before each part of the work, whether or not it gives bytes.
    fn check_time(&self) -> Result<(), DecodeError> {
        if (self.out_of_time)() { Err(DecodeError::TooSlow(self.coding)) } else { Ok(()) }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        let length = self.bytes.len() + piece.len();
        if length > self.max_body {
            return Err(DecodeError::TooLarge(self.max_body));
        }
        if length as u64 > RATIO_MATTERS && length as u64 / MOST_RATIO > self.wire_bytes {
            return Err(DecodeError::Bomb);
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

fn copy(mut reader: impl Read, coding: Coding, out: &mut DecodedOutput<'_>) -> Result<(), DecodeError> {
    let mut piece = [0; 16 * 1024];
    loop {
        out.check_time()?;
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => out.push(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(DecodeError::Truncated(coding));
            }
            Err(_) => return Err(DecodeError::Corrupt(coding)),
        }
    }
}

fn gunzip(mut input: &[u8], out: &mut DecodedOutput<'_>) -> Result<(), DecodeError> {
    for _ in 0..MOST_MEMBERS {
        copy(flate2::bufread::GzDecoder::new(&mut input), Coding::Gzip, out)?;
        // Padding after the last member is common and harmless.
        if !input.starts_with(&[0x1f, 0x8b]) {
            return Ok(());
        }
    }
    Err(DecodeError::TooManyMembers(Coding::Gzip))
}

/// Uses the low-level interface, because flate2's reader accepts a truncated stream.
fn inflate(input: &[u8], zlib: bool, out: &mut DecodedOutput<'_>) -> Result<(), DecodeError> {
    let mut inflater = Decompress::new(zlib);
    let mut piece = [0; 16 * 1024];
    loop {
        out.check_time()?;
        let consumed = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX);
        let before = inflater.total_out();
        let remaining = input.get(consumed..).unwrap_or_default();
        let status = inflater
            .decompress(remaining, &mut piece, FlushDecompress::None)
            .map_err(|_| DecodeError::Corrupt(Coding::Deflate))?;
        let produced = usize::try_from(inflater.total_out() - before).unwrap_or(0);
        out.push(piece.get(..produced).unwrap_or_default())?;
        match status {
            Status::StreamEnd => return Ok(()),
            _ if produced == 0 && (remaining.is_empty() || inflater.total_in() == consumed as u64) => {
                return Err(DecodeError::Truncated(Coding::Deflate));
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

fn unzstd(mut input: &[u8], out: &mut DecodedOutput<'_>) -> Result<(), DecodeError> {
    let corrupt = DecodeError::Corrupt(Coding::Zstd);
    if input.is_empty() {
        return Err(DecodeError::Truncated(Coding::Zstd));
    }
    let mut decoder = FrameDecoder::new();
    // A single-segment frame has its whole content as window, which may be `max_body` bytes.
    decoder.set_max_window_size(ZSTD_WINDOW.max(out.max_body) as u64);
    let mut frames = 0;
    while !input.is_empty() {
        frames += 1;
        if frames > MOST_MEMBERS {
            return Err(DecodeError::TooManyMembers(Coding::Zstd));
        }
        match decoder.init(&mut input) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                input = input.get(length as usize..).ok_or(DecodeError::Truncated(Coding::Zstd))?;
                continue;
            }
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => {
                return Err(DecodeError::TooLarge(out.max_body));
            }
            Err(_) => return Err(corrupt),
        }
        while !decoder.is_finished() || decoder.can_collect() > 0 {
            out.check_time()?;
            if !decoder.is_finished() {
                // A block has at most 128 KiB, so the limits are exceeded by at most that.
                decoder.decode_blocks(&mut input, BlockDecodingStrategy::UptoBlocks(1)).map_err(|_| {
                    // The decoder reports one error for both cases; empty remaining input shows an early end.
                    if input.is_empty() {
                        DecodeError::Truncated(Coding::Zstd)
                    } else {
                        DecodeError::Corrupt(Coding::Zstd)
                    }
                })?;
            }
            if let Some(piece) = decoder.collect() {
                out.push(&piece)?;
            }
        }
        let (stated, computed) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
        if stated.is_some() && stated != computed {
            return Err(corrupt);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
