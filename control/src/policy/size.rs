//! Amounts of memory as people write them: `512M`, `2G`, `1048576`.

use std::fmt;

/// Smallest limit: less than any program can start with.
pub const BYTES_MIN: u64 = 1 << 20;
/// Largest limit: more than the address space that one program gets.
pub const BYTES_MAX: u64 = 1 << 46;

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Why a text is no amount of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SizeError {
    /// It is not a whole number with a known unit.
    Form(String),
    /// It is out of range.
    Range(String),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(found) => write!(
                f,
                "{found:?} is no amount of memory; write bytes or a whole number with K, M, G or T \
                 (powers of 1024), as 512M"
            ),
            Self::Range(found) => write!(f, "{found} is out of range; allowed is 1M to 64T"),
        }
    }
}

impl std::error::Error for SizeError {}

/// Reads bytes, or a whole number with K, M, G or T, in powers of 1024; `iB` may follow the unit.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let wrong = || SizeError::Form(text.to_owned());
    let bare = text.strip_suffix("iB").unwrap_or(text);
    let unit =
        UNITS.iter().find(|(letter, _)| bare.ends_with([*letter, letter.to_ascii_lowercase()]));
    let (digits, shift) = match unit {
        Some((_, shift)) => (&bare[..bare.len() - 1], *shift),
        None if bare.len() == text.len() => (text, 0),
        None => return Err(wrong()),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(bytes))
        .ok_or_else(|| SizeError::Range(text.to_owned()))
}

/// The shortest text that [`parse_bytes`] reads as `bytes`.
pub fn bytes_text(bytes: u64) -> String {
    let whole = |(_, shift): &&(char, u32)| bytes % (1 << shift) == 0;
    match UNITS.iter().rev().find(whole) {
        Some((letter, shift)) if bytes > 0 => format!("{}{letter}", bytes >> shift),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_powers_of_1024_and_read_back() {
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        assert_eq!(parse_bytes("1536KiB"), Ok(1536 << 10));
        assert_eq!(parse_bytes("1048577"), Ok(1_048_577));
        for bytes in [512 << 20, 1536 << 10, 1 << 40, 1_048_577] {
            assert_eq!(parse_bytes(&bytes_text(bytes)), Ok(bytes));
        }
        assert_eq!(bytes_text(512 << 20), "512M");
    }

    #[test]
    fn other_texts_are_refused_with_their_reason() {
        for text in ["", "M", "1.5G", "-1M", "512MB", "10iB", "0x10M", "+5M", "é"] {
            assert_eq!(parse_bytes(text), Err(SizeError::Form(text.to_owned())), "{text}");
        }
        for text in ["1K", "0", "65T", "99999999999999999999T"] {
            assert_eq!(parse_bytes(text), Err(SizeError::Range(text.to_owned())), "{text}");
        }
    }
}
