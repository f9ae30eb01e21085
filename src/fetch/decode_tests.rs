use std::cell::Cell;
use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderValue;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const TEXT: &[u8] = b"a feed, a feed, a feed of words";
const MAX: usize = 10 * 1024 * 1024;

/// `TEXT`, compressed by brotli's reference encoder at its highest quality.
const BROTLI: &[u8] = &[
    0x1b, 0x1e, 0x00, 0xf8, 0x8d, 0xd4, 0x4e, 0x77, 0xf3, 0xa7, 0xca, 0x32, 0xb2, 0xb0, 0x06, 0x31, 0x63,
    0x79, 0x5b, 0xa3, 0xe8, 0x53, 0x0e, 0x54, 0x11, 0x89, 0x07, 0x4f,
];

/// 64 MiB of zeros, compressed in the same way.
const BROTLI_BOMB: &[u8] = &[
    0xcb, 0xff, 0xff, 0x3f, 0xf8, 0x27, 0x00, 0xe2, 0xb1, 0x40, 0x20, 0xf7, 0xfe, 0x8f, 0xff, 0xff, 0x7f,
    0xf0, 0x4f, 0x00, 0xc4, 0x61, 0x11, 0x80, 0xee, 0xfd, 0x1f, 0xff, 0xff, 0xff, 0xe0, 0x9f, 0x00, 0x88,
    0xc3, 0x02, 0x00, 0xdd, 0xfb, 0x3f, 0xfe, 0xff, 0xff, 0xc1, 0x3f, 0x01, 0x10, 0x87, 0x05, 0x00, 0xba,
    0xf7, 0x7f, 0xfc, 0xff, 0xff, 0x83, 0x7f, 0x02, 0x20, 0x0e, 0x0b, 0x00, 0x74, 0xef, 0xff, 0xf8, 0xff,
    0xff, 0x07, 0xff, 0x04, 0x40, 0x1c, 0x16, 0x00, 0xe8, 0xde, 0xff, 0xf1, 0xff, 0xff, 0x0f, 0xfe, 0x09,
    0x80, 0x38, 0x2c, 0x00, 0xd0, 0xbd, 0xff, 0xcb, 0xff, 0xff, 0x3f, 0xfc, 0x13, 0x00, 0x71, 0x58, 0x00,
    0xa0, 0x7b, 0xff, 0x07,
];

/// `TEXT`, compressed by zstd's reference encoder at level 19, with a checksum.
const ZSTD: &[u8] = &[
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0xbd, 0x00, 0x00, 0x88, 0x61, 0x20, 0x66, 0x65, 0x65, 0x64, 0x2c,
    0x20, 0x20, 0x6f, 0x66, 0x20, 0x77, 0x6f, 0x72, 0x64, 0x73, 0x01, 0x00, 0xe5, 0xcb, 0x05, 0xaa, 0x9e,
    0x06, 0x58,
];

/// Encodes bytes in brotli's uncompressed form.
fn brotli_stored(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() <= 65536 && !bytes.is_empty());
    // WBITS 16 (one bit 0), ISLAST 0, MNIBBLES 0 (4 nibbles), MLEN-1, ISUNCOMPRESSED 1; then bytes.
    let bits: u32 = (u32::try_from(bytes.len()).unwrap() - 1) << 4 | 1 << 20;
    let mut out = bits.to_le_bytes()[..3].to_vec();
    out.extend_from_slice(bytes);
    out.push(3); // ISLAST, ISEMPTY
    out
}

/// Decodes without a limit of time.
fn decode(wire: Vec<u8>, codings: &[Coding], max_body: usize) -> Result<Vec<u8>, DecodeError> {
    super::decode(wire, codings, max_body, &|| false)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bare(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn samples(bytes: &[u8]) -> Vec<(Coding, Vec<u8>)> {
    vec![
        (Coding::Gzip, gzip(bytes)),
        (Coding::Deflate, zlib(bytes)),
        (Coding::Deflate, bare(bytes)),
        (Coding::Brotli, brotli_stored(bytes)),
        (Coding::Zstd, zstd(bytes)),
    ]
}

#[test]
fn every_coding_is_decoded() {
    for (coding, wire) in samples(TEXT) {
        assert_eq!(decode(wire, &[coding], MAX).unwrap(), TEXT, "{coding:?}");
    }
    assert_eq!(decode(TEXT.to_vec(), &[], MAX).unwrap(), TEXT);
    assert_eq!(decode(gzip(&zstd(TEXT)), &[Coding::Zstd, Coding::Gzip], MAX).unwrap(), TEXT);
    let both = [gzip(b"one "), gzip(b"two"), vec![0; 7]].concat();
    assert_eq!(decode(both, &[Coding::Gzip], MAX).unwrap(), b"one two");
    let skipped = [vec![0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9], zstd(b"one "), zstd(b"two")].concat();
    assert_eq!(decode(skipped, &[Coding::Zstd], MAX).unwrap(), b"one two");
}

#[test]
fn decoding_ends_when_time_is_up() {
    // A part of zstd has up to 128 KiB.
    let text: Vec<u8> = (0..60_000_u32).flat_map(u32::to_le_bytes).collect();
    let others = samples(&text[..60_000]).into_iter().filter(|(coding, _)| *coding != Coding::Zstd);
    for (coding, wire) in others.chain([(Coding::Zstd, zstd(&text))]) {
        let checks = Cell::new(0);
        let second = || checks.replace(checks.get() + 1) >= 1;
        let error = super::decode(wire, &[coding], MAX, &second).unwrap_err();
        assert!(matches!(error, DecodeError::TooSlow(_)), "{coding:?}: {error}");
        assert_eq!(checks.get(), 2, "{coding:?}: it is asked for each part");
    }
    // Members and frames without output cost time as well.
    let empty = [(Coding::Gzip, gzip(b"")), (Coding::Zstd, zstd(b""))];
    for (coding, wire) in empty {
        let checks = Cell::new(0);
        let tenth = || checks.replace(checks.get() + 1) >= 9;
        let error = super::decode(wire.repeat(100), &[coding], MAX, &tenth).unwrap_err();
        assert!(matches!(error, DecodeError::TooSlow(_)), "{coding:?}: {error}");
    }
}

#[test]
fn every_truncation_is_an_error() {
    let text: Vec<u8> = (0..3000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
    for (coding, wire) in samples(&text) {
        for length in 0..wire.len() {
            let cut = decode(wire[..length].to_vec(), &[coding], MAX);
            assert!(cut.is_err(), "{coding:?} cut to {length} of {}", wire.len());
        }
    }
}

#[test]
fn bombs_are_stopped_by_size_or_ratio() {
    // A gibibyte in members of a mebibyte each.
    let bomb = gzip(&vec![0; 1024 * 1024]).repeat(1024);
    assert!(bomb.len() < 2 * 1024 * 1024);
    assert!(matches!(decode(bomb, &[Coding::Gzip], MAX), Err(DecodeError::TooLarge(MAX))));
    let zeros = vec![0; 2 * 1024 * 1024];
    for wire in
        [(Coding::Gzip, gzip(&zeros)), (Coding::Deflate, zlib(&zeros)), (Coding::Zstd, zstd(&zeros))]
    {
        assert!(matches!(decode(wire.1, &[wire.0], MAX), Err(DecodeError::Bomb)), "{:?}", wire.0);
    }
    // Nested: the outer layer is within the limits, the inner one is not.
    let nested = gzip(&gzip(&vec![0; 64 * 1024 * 1024]));
    assert!(matches!(decode(nested, &[Coding::Gzip, Coding::Gzip], MAX), Err(DecodeError::Bomb)));
    // Small repetitive content is accepted.
    let small = vec![b' '; 1000 * 1024];
    assert_eq!(decode(gzip(&small), &[Coding::Gzip], MAX).unwrap(), small);
}

#[test]
fn the_size_limit_is_exact() {
    for (coding, wire) in samples(TEXT) {
        assert!(decode(wire.clone(), &[coding], TEXT.len()).is_ok());
        let error = decode(wire, &[coding], TEXT.len() - 1).unwrap_err();
        assert!(matches!(error, DecodeError::TooLarge(_)), "{coding:?}: {error}");
    }
}

#[test]
fn a_wrong_checksum_is_an_error() {
    for (coding, mut wire) in [(Coding::Gzip, gzip(TEXT)), (Coding::Deflate, zlib(TEXT))] {
        let at = wire.len() - if coding == Coding::Gzip { 8 } else { 1 };
        wire[at] ^= 1;
        assert!(decode(wire, &[coding], MAX).is_err(), "{coding:?}");
    }
}

#[test]
fn codings_are_read_from_headers() {
    let read = |lines: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(line));
        }
        codings(&headers)
    };
    assert_eq!(read(&[]).unwrap(), []);
    assert_eq!(read(&["GZIP"]).unwrap(), [Coding::Gzip]);
    assert_eq!(read(&["identity, x-gzip"]).unwrap(), [Coding::Gzip]);
    assert_eq!(read(&["br", "zstd"]).unwrap(), [Coding::Brotli, Coding::Zstd]);
    assert!(matches!(read(&["gzip, gzip, gzip"]), Err(DecodeError::TooMany(3))));
    let unknown = read(&["compress"]).unwrap_err();
    assert_eq!(unknown.to_string(), "the body is encoded as `compress`, which was not asked for");
}

#[test]
fn output_of_reference_encoders_is_decoded() {
    assert_eq!(decode(ZSTD.to_vec(), &[Coding::Zstd], MAX).unwrap(), TEXT);
    let mut flipped = ZSTD.to_vec();
    flipped[ZSTD.len() - 1] ^= 1;
    assert!(matches!(decode(flipped, &[Coding::Zstd], MAX), Err(DecodeError::Corrupt(_))));
    assert!(matches!(decode(BROTLI_BOMB.to_vec(), &[Coding::Brotli], MAX), Err(DecodeError::Bomb)));
    assert_eq!(decode(BROTLI.to_vec(), &[Coding::Brotli], MAX).unwrap(), TEXT);
    for length in 0..BROTLI.len() {
        assert!(decode(BROTLI[..length].to_vec(), &[Coding::Brotli], MAX).is_err(), "cut to {length}");
    }
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), flip in 0_usize..60) {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let _ = decode(bytes.clone(), &[coding], 4096);
        }
        for (coding, mut wire) in samples(TEXT) {
            if let Some(byte) = wire.get_mut(flip) {
                *byte ^= 0x55;
            }
            let _ = decode(wire, &[coding], 4096);
        }
    }
}

#[test]
fn the_number_of_members_is_limited() {
    let empty = gzip(b"");
    assert_eq!(decode(empty.repeat(1_000), &[Coding::Gzip], MAX).unwrap(), b"");
    let error = decode(empty.repeat(1_001), &[Coding::Gzip], MAX).unwrap_err();
    assert_eq!(error.to_string(), "the Gzip body has more than 1000 members");
    // A frame without content that decoders skip.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    assert_eq!(decode([&skipped.repeat(999), ZSTD].concat(), &[Coding::Zstd], MAX).unwrap(), TEXT);
    let error = decode(skipped.repeat(1_001), &[Coding::Zstd], MAX).unwrap_err();
    assert_eq!(error.to_string(), "the Zstd body has more than 1000 members");
}
