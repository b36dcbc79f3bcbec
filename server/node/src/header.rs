//! What every request between nodes begins with: the number of the service that it is for.
//!
//! ```text
//! 0  u16  service, as in the control protocol; 0 is the node's thread itself: an echo
//! 2  u16  0
//! 4       the service's own header
//! ```
//!
//! Little-endian. Answers have the service's own header and nothing before it.

/// Bytes before the service's own header.
pub const SERVICE_BYTES: usize = 4;
/// The node's thread itself. It answers with what it was sent.
pub const ECHO: u16 = 0;
/// The registry that one node keeps for the others: asked of and by nodes that are no members yet.
pub const REGISTRY: u16 = 9;

/// A header with its service in front.
pub fn encode(service: u16, header: &[u8]) -> Vec<u8> {
    let [low, high] = service.to_le_bytes();
    [&[low, high, 0, 0], header].concat()
}

/// The service that a foreign header names, and the rest; none where it names none.
pub fn decode(header: &[u8]) -> Option<(u16, &[u8])> {
    match header {
        [low, high, 0, 0, rest @ ..] => Some((u16::from_le_bytes([*low, *high]), rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_nothing_else_is() {
        assert_eq!(decode(&encode(0x0506, b"rest")), Some((0x0506, b"rest".as_slice())));
        for wrong in [&b""[..], b"\x05\x00\x00", b"\x05\x00\x00\x01", b"\x05\x00\x01\x00rest"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
