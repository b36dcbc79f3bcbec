//! Who a node is, and what it knows that strangers do not.

use std::fmt;

/// A node of a cluster. Its number is chosen by whoever sets up the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

/// What a node says of itself and proves.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number.
    pub node: NodeId,
    /// Which life of the node this is: larger after each start. The time of the start will do.
    pub incarnation: u64,
    /// What all nodes of the cluster know.
    pub secret: Secret,
}

/// What all nodes of a cluster know, and nobody else.
///
/// The proofs of a handshake can be tried against guesses by whoever hears them, so a secret is 32
/// random bytes and no word that people choose.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

/// The length of a secret.
pub const SECRET_BYTES: usize = 32;

/// A text that is no secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotASecret;

impl Secret {
    /// The secret of these bytes.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(bytes)
    }

    /// Reads 64 hexadecimal digits, as a file of a secret holds them; white space around is cut off.
    pub fn from_hex(text: &str) -> Result<Secret, NotASecret> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * SECRET_BYTES {
            return Err(NotASecret);
        }
        let mut bytes = [0; SECRET_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = 16 * digit(pair[0]).ok_or(NotASecret)? + digit(pair[1]).ok_or(NotASecret)?;
        }
        Ok(Secret(bytes))
    }

    /// The key of proofs. The secret itself keys nothing else.
    pub(crate) fn proof_key(&self) -> [u8; 32] {
        blake3::derive_key("heliostat transport 2026 proof of membership", &self.0)
    }
}

fn digit(letter: u8) -> Option<u8> {
    (letter as char).to_digit(16).map(|digit| digit as u8)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for NotASecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret is {} hexadecimal digits", 2 * SECRET_BYTES)
    }
}

impl std::error::Error for NotASecret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_64_digits_and_never_shown() {
        let secret = Secret::from_hex(&format!("{}\n", "0aF0".repeat(16))).expect("a secret");
        assert_eq!(secret.0[..4], [0x0a, 0xf0, 0x0a, 0xf0]);
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn a_text_of_another_length_or_with_other_letters_is_no_secret() {
        for text in [String::new(), "0".repeat(63), "0".repeat(65), "g".repeat(64), "é".repeat(32)]
        {
            assert_eq!(Secret::from_hex(&text).map(|_| ()), Err(NotASecret), "{text}");
        }
    }
}
