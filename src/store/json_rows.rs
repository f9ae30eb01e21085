//! Many rows as one JSON text, in both directions.
//!
//! One bound text per statement, which SQLite decodes with `jsonb_each`, costs a fraction of one statement per
//! row. Results that SQLite builds as one text are decoded much faster than single rows.

use serde::{Serialize, Serializer};

/// Decodes rows from one JSON text.
pub(super) fn read_text<'t, T: serde::Deserialize<'t>>(text: &'t str) -> Result<T, sqlx::Error> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// Encodes rows as one JSON text, for `jsonb_each`. A number that is not finite becomes NULL.
pub(super) fn text_of<T: Serialize>(rows: &[T]) -> Result<String, sqlx::Error> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// Bytes as hexadecimal text, because JSON has no bytes. SQLite decodes it with `unhex`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hex<B>(pub(super) B);

impl<B: AsRef<[u8]>> Serialize for Hex<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
        let bytes = self.0.as_ref();
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            text.extend([digit(byte >> 4), digit(*byte)]);
        }
        serializer.serialize_str(&text)
    }
}

/// The bytes of a hexadecimal text; `None` if it is none.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(*pair.get(1)?)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_hexadecimal_text() {
        assert_eq!(from_hex("00abFF"), Some(vec![0, 0xab, 0xff]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        assert_eq!((from_hex("0"), from_hex("0g"), from_hex("é")), (None, None, None));
    }

    #[test]
    fn rows_are_encoded_as_arrays_and_bytes_as_hexadecimal_text() {
        let rows = [(1, Some(f64::NAN), Hex([0, 0xab, 0xff]))];
        assert_eq!(text_of(&rows).unwrap(), r#"[[1,null,"00abff"]]"#);
    }
}
