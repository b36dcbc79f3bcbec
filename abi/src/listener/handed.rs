//! The record that comes with each connection in a worker's queue.
//!
//! ```text
//! 0 "HCON"   4 peer: family u8, 0, port u16, address 16 bytes   24 serial u64
//! ```

use crate::name::NetAddress;
use crate::wire::{Reader, WireError, Writer};

const MAGIC: u32 = u32::from_le_bytes(*b"HCON");

/// What a worker is told of a connection, beside its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handed {
    /// Who connected.
    pub peer: NetAddress,
    /// Its number among those of the listener.
    pub serial: u64,
}

impl Handed {
    /// Bytes of the record.
    pub const BYTES: usize = 32;

    /// The record.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u32(MAGIC);
        self.peer.encode(&mut w);
        w.u64(self.serial);
        bytes
    }

    /// What a record says.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() != Self::BYTES {
            return Err(WireError::Length { wanted: Self::BYTES, found: bytes.len() });
        }
        let mut r = Reader::new(bytes);
        let found = r.u32();
        if found != MAGIC {
            return Err(WireError::Magic { found });
        }
        let peer = NetAddress::decode(&mut r)?;
        Ok(Self { peer, serial: r.u64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_and_other_bytes_are_none() {
        for peer in ["127.0.0.1:80", "[fe80::1]:9"] {
            let peer = NetAddress::new(peer.parse().unwrap());
            let handed = Handed { peer, serial: 1 << 40 };
            let bytes = handed.encode();
            assert_eq!(Handed::decode(&bytes), Ok(handed));
            assert!(Handed::decode(&bytes[1..]).is_err());
            assert!(matches!(Handed::decode(&[0; 32]), Err(WireError::Magic { found: 0 })));
        }
    }
}
