//! What is asked of the service of delegated sockets: the bodies of its records.
//!
//! ```text
//! 0 Session   -                                        [window]
//! 1 Reach     which u32 (1 connect, 2 listen), destination
//! 2 Folder    rights u32 (1 read, 2 write)             [directory]
//! 3 Confine   -
//! ```
//! Reach and Folder say what a session keeps once Confine has closed the list: addresses that it may
//! connect to or listen at, and folders whose files its delegated operations may name. All of the
//! rules hold besides. Nothing widens it.

use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::session::restriction::Destination;
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 14;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Session.
    pub const SESSION: u16 = FIRST;
    /// Of Reach.
    pub const REACH: u16 = FIRST + 1;
    /// Of Folder.
    pub const FOLDER: u16 = FIRST + 2;
    /// Of Confine.
    pub const CONFINE: u16 = FIRST + 3;
}

/// What a confined session may do with an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Connect to it.
    Connect,
    /// Listen at it.
    Listen,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketRequest {
    /// Operations on sockets will be delegated: brings [window], the reply brings [rings].
    Session,
    /// Addresses that stay within reach.
    Reach(Access, Destination),
    /// A folder whose files stay within reach: brings [directory].
    Folder {
        /// They may be read.
        reads: bool,
        /// They may be written, made and removed.
        writes: bool,
    },
    /// From now on nothing else is within reach.
    Confine,
}

impl SocketRequest {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Session => number::SESSION,
            Self::Reach(..) => number::REACH,
            Self::Folder { .. } => number::FOLDER,
            Self::Confine => number::CONFINE,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        match self {
            Self::Session | Self::Confine => {}
            Self::Reach(access, destination) => {
                w.u32(match access {
                    Access::Connect => 1,
                    Access::Listen => 2,
                });
                destination.encode(&mut w);
            }
            Self::Folder { reads, writes } => {
                w.u32(u32::from(*reads) | u32::from(*writes) << 1);
            }
        }
        OwnRequest { number: self.number(), body }
    }

    /// The request in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnRequest) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let request = match own.number {
            number::SESSION => Self::Session,
            number::REACH => Self::Reach(take_access(&mut r)?, Destination::decode(&mut r)?),
            number::FOLDER => match r.u32() {
                rights @ 1..=3 => Self::Folder { reads: rights & 1 != 0, writes: rights & 2 != 0 },
                found => {
                    return Err(WireError::Field { name: "rights", found: u64::from(found) });
                }
            },
            number::CONFINE => Self::Confine,
            found => return Err(WireError::Kind { found }),
        };
        r.rest_is_zero().then_some(request).ok_or(WireError::Reserved)
    }
}

fn take_access(r: &mut Reader<'_>) -> Result<Access, WireError> {
    match r.u32() {
        1 => Ok(Access::Connect),
        2 => Ok(Access::Listen),
        found => Err(WireError::Field { name: "access", found: u64::from(found) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each() -> [SocketRequest; 5] {
        let host = Some("10.0.0.7".parse().unwrap());
        let to = Destination { host, ports: (80, 90) };
        [
            SocketRequest::Session,
            SocketRequest::Reach(Access::Connect, to),
            SocketRequest::Reach(Access::Listen, Destination { host: None, ..to }),
            SocketRequest::Folder { reads: true, writes: false },
            SocketRequest::Confine,
        ]
    }

    #[test]
    fn requests_come_back_as_they_were() {
        for request in each() {
            assert_eq!(SocketRequest::decode(&request.encode()), Ok(request));
        }
    }

    /// One byte after the other, each with the values at which a check turns.
    #[test]
    fn what_is_decoded_from_changed_bytes_encodes_to_them_or_is_refused() {
        for request in each() {
            let good = request.encode();
            for at in 0..REQUEST_BODY_BYTES {
                for value in [0, 1, 2, 3, 4, 6, 0x7f, 0x80, 0xff] {
                    let mut own = good;
                    own.body[at] = value;
                    let Ok(found) = SocketRequest::decode(&own) else { continue };
                    // All hosts have two forms, an IPv4 address has bytes that say nothing.
                    let is_padding =
                        matches!(found, SocketRequest::Reach(..)) && (4..24).contains(&at);
                    assert!(is_padding || found.encode() == own, "byte {at} is {value}");
                }
            }
            let unknown = OwnRequest { number: FIRST + 4, ..good };
            assert_eq!(SocketRequest::decode(&unknown), Err(WireError::Kind { found: FIRST + 4 }));
        }
    }
}
