//! What every request between nodes begins with: the number of the service that it is for.
//!
//! ```text
//! 0  u16  service, as in the control protocol; 0 is the node's thread itself: an echo
//! 2  u8   class: 0 normal, 1 high, 2 low; u8 0
//! 4       the service's own header
//! ```
//!
//! Little-endian. Answers have the service's own header and nothing before it.

use heliostat_abi::cluster::Class;

/// Bytes before the service's own header.
pub const SERVICE_BYTES: usize = 4;
/// The node's thread itself. It answers with what it was sent.
pub const ECHO: u16 = 0;
/// The registry that one node keeps for the others: asked of and by nodes that are no members yet.
pub const REGISTRY: u16 = 9;

/// A header with its service in front, of a request that is normal.
pub fn encode(service: u16, header: &[u8]) -> Vec<u8> {
    encode_as(Class::Normal, service, header)
}

/// The same of a request of a class.
pub fn encode_as(class: Class, service: u16, header: &[u8]) -> Vec<u8> {
    let [low, high] = service.to_le_bytes();
    [&[low, high, class.number(), 0], header].concat()
}

/// The class that a foreign header names: the node's word. What names none is normal, and no request.
pub fn class_of(header: &[u8]) -> Class {
    header.get(2).and_then(|number| Class::from_number(*number)).unwrap_or_default()
}

/// The service that a foreign header names, and the rest; none where it names none.
pub fn decode(header: &[u8]) -> Option<(u16, &[u8])> {
    match header {
        [low, high, class, 0, rest @ ..] if Class::from_number(*class).is_some() => {
            Some((u16::from_le_bytes([*low, *high]), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_nothing_else_is() {
        assert_eq!(decode(&encode(0x0506, b"rest")), Some((0x0506, b"rest".as_slice())));
        for class in Class::ALL {
            let header = encode_as(class, 7, b"rest");
            assert_eq!((decode(&header), class_of(&header)), (Some((7, &b"rest"[..])), class));
        }
        for wrong in [&b""[..], b"\x05\x00\x00", b"\x05\x00\x00\x01", b"\x05\x00\x03\x00rest"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
