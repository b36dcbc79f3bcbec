//! Operations on TCP sockets, as a session's rings and its call line carry them.
//!
//! ```text
//! kind      object    argument             pieces                            result
//! Connect   -         0                    address of ADDRESS_BYTES          index, with generation
//! Listen    -         backlog, SHARED_BIT, address; gets the one it has      index, with generation
//!                     a rule
//! Accept    listener  0                    none, or the peer's address       index, with generation
//! Read      socket    0                    where to in the window            bytes; 0 at the end
//! Write     socket    0                    where from in the window          bytes, all of them
//! Poll      -         0                    entries of POLL_ENTRY_BYTES       entries that are ready
//! Shutdown  socket    RECEIVING, SENDING   none                              0
//! Address   socket    OWN or PEER          gets the address                  0
//! Close     socket    0                    none                              0
//! ```
//! The offset of each is 0. A Read completes with what is there, as soon as anything is; a Write once
//! all its bytes have been given to the kernel, or with fewer where the connection ended meanwhile.
//! Writes of one socket are sent in the order of submission. Reads of one socket that are under way
//! together get the bytes in any order.
//!
//! An entry of Poll is looked at once when it is asked, and written when the operation completes:
//!
//! ```text
//! 0 index u32, generation u32, wanted u16, found u16, 0 u32
//! ```
//! An address: family u8 (4 or 6), 0 u8, port u16, 16 bytes, 0 u32.

use super::OpKind;
use crate::name::{NetAddress, ObjectId};
use crate::wire::{Reader, Writer};

/// Bytes of an address in the window.
pub const ADDRESS_BYTES: usize = 24;
/// Bytes of one entry of Poll.
pub const POLL_ENTRY_BYTES: usize = 16;
/// Entries of one Poll: each is looked at once on the loop's time.
pub const POLLED_MAX: usize = 1024;

/// Listen's argument: connections that may wait to be accepted, in its lower bits.
pub const BACKLOG_MAX: u64 = 4096;
/// Listen's argument: others of the same user may listen at the address too, and connections are
/// shared out among all.
pub const SHARED_BIT: u64 = 1 << 16;
/// Listen's argument: by which rule connections are shared out, with `SHARED_BIT` only. 0: by the one
/// that the listener has, else by load.
pub const RULES: u64 = 7 << RULE_SHIFT;
/// The rule: the one with the least load.
pub const BY_LOAD: u64 = 1 << RULE_SHIFT;
/// The rule: each in its turn.
pub const BY_TURN: u64 = 2 << RULE_SHIFT;
/// The rule: the same one for each peer's address, without its port.
pub const BY_ADDRESS: u64 = 3 << RULE_SHIFT;
/// The rule: the same one for each first line, within the usual limits.
pub const BY_CONTENT: u64 = 4 << RULE_SHIFT;
/// A rule's number is the one that it has in the records of shared listeners.
const RULE_SHIFT: u32 = 17;

/// Shutdown's argument: nothing more is received.
pub const RECEIVING: u64 = 1;
/// Shutdown's argument: nothing more is sent; the peer sees the end.
pub const SENDING: u64 = 2;

/// Address's argument: of the socket's own end.
pub const OWN: u64 = 0;
/// Address's argument: of the other end.
pub const PEER: u64 = 1;

/// Poll: there is something to receive or to accept, or the end.
pub const POLL_IN: u16 = 1;
/// Poll: there is room to send.
pub const POLL_OUT: u16 = 2;
/// Poll: the connection has failed, or has ended both ways. Found whether wanted or not.
pub const POLL_ENDED: u16 = 4;
/// Poll: no such socket. Found whether wanted or not.
pub const POLL_UNKNOWN: u16 = 8;

/// Whether Listen, Shutdown or Address knows every bit of an argument.
pub(super) fn fits_socket(kind: OpKind, argument: u64) -> bool {
    match kind {
        OpKind::Listen => fits_listen(argument),
        OpKind::Shutdown => (RECEIVING..=RECEIVING | SENDING).contains(&argument),
        _ => argument <= PEER,
    }
}

fn fits_listen(argument: u64) -> bool {
    let (is_shared, rule) = (argument & SHARED_BIT != 0, argument & RULES);
    let is_rule = rule == 0 || is_shared && (BY_LOAD..=BY_CONTENT).contains(&rule);
    (1..=BACKLOG_MAX).contains(&(argument & !(SHARED_BIT | RULES))) && is_rule
}

/// The bytes of an address, as it is put into the window.
pub fn encode_address(address: NetAddress) -> [u8; ADDRESS_BYTES] {
    let mut bytes = [0; ADDRESS_BYTES];
    address.encode(&mut Writer::new(&mut bytes));
    bytes
}

/// The address in bytes that were copied from the window.
pub fn decode_address(bytes: &[u8; ADDRESS_BYTES]) -> Option<NetAddress> {
    let mut r = Reader::new(bytes);
    let address = NetAddress::decode(&mut r).ok()?;
    (bytes[1] == 0 && r.rest_is_zero()).then_some(address)
}

/// One socket that Poll asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PollEntry {
    /// Which socket.
    pub socket: ObjectId,
    /// What is waited for.
    pub wanted: u16,
    /// What there is.
    pub found: u16,
}

impl PollEntry {
    /// Its bytes, as they are put into the window.
    pub fn encode(&self) -> [u8; POLL_ENTRY_BYTES] {
        let mut bytes = [0; POLL_ENTRY_BYTES];
        let mut w = Writer::new(&mut bytes);
        self.socket.encode(&mut w);
        w.u16(self.wanted).u16(self.found);
        bytes
    }

    /// The entry in bytes that were copied from the window; `None` where a bit is none that is known.
    /// What stands in `found` counts for nothing.
    pub fn decode(bytes: &[u8; POLL_ENTRY_BYTES]) -> Option<PollEntry> {
        let mut r = Reader::new(bytes);
        let socket = ObjectId::decode(&mut r);
        let (wanted, _) = (r.u16(), r.u16());
        let is_known = wanted & !(POLL_IN | POLL_OUT) == 0 && r.rest_is_zero();
        is_known.then_some(PollEntry { socket, wanted, found: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_entries_come_back_as_they_were() {
        for text in ["127.0.0.1:80", "[fe80::1]:65535"] {
            let address = NetAddress::new(text.parse().unwrap());
            assert_eq!(decode_address(&encode_address(address)), Some(address));
        }
        let mut odd = encode_address(NetAddress::new("1.2.3.4:5".parse().unwrap()));
        odd[0] = 5;
        assert_eq!(decode_address(&odd), None);
        (odd[0], odd[23]) = (4, 1);
        assert_eq!(decode_address(&odd), None);
        let entry = PollEntry {
            socket: ObjectId { index: 3, generation: 4 },
            wanted: POLL_IN | POLL_OUT,
            found: POLL_ENDED,
        };
        assert_eq!(PollEntry::decode(&entry.encode()), Some(PollEntry { found: 0, ..entry }));
        let unknown = PollEntry { wanted: POLL_UNKNOWN, ..entry };
        assert_eq!(PollEntry::decode(&unknown.encode()), None);
    }

    #[test]
    fn arguments_have_the_bits_of_their_kind() {
        let good = [
            (OpKind::Listen, 1),
            (OpKind::Listen, BACKLOG_MAX | SHARED_BIT),
            (OpKind::Listen, 1 | SHARED_BIT | BY_CONTENT),
            (OpKind::Listen, 1 | SHARED_BIT | BY_LOAD),
            (OpKind::Shutdown, RECEIVING | SENDING),
            (OpKind::Address, PEER),
        ];
        let bad = [
            (OpKind::Listen, 0),
            (OpKind::Listen, SHARED_BIT),
            (OpKind::Listen, BACKLOG_MAX + 1),
            (OpKind::Listen, 1 | BY_ADDRESS),
            (OpKind::Listen, 1 | SHARED_BIT | 5 << RULE_SHIFT),
            (OpKind::Listen, 1 | SHARED_BIT | RULES),
            (OpKind::Listen, 1 | SHARED_BIT << 4),
            (OpKind::Shutdown, 0),
            (OpKind::Shutdown, 4),
            (OpKind::Address, 2),
        ];
        assert!(good.into_iter().all(|(kind, argument)| fits_socket(kind, argument)));
        assert_eq!(bad.into_iter().find(|(kind, argument)| fits_socket(*kind, *argument)), None);
    }
}
