//! A connection that was accepted and is no member's yet, and by what it is decided whose it is.

use std::os::fd::OwnedFd;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::NetAddress;
use heliostat_service_listener::{address_bytes, Key};

use super::budget::Slot;

/// One connection.
pub(crate) struct Arrival {
    pub socket: OwnedFd,
    /// None where it has gone already.
    pub peer: Option<NetAddress>,
    /// What the rule goes by, where that is no load or turn.
    pub key_bytes: Vec<u8>,
    /// Since when it is known whose it should be.
    pub since_ns: u64,
    /// Its place while it is nobody's, where it may be kept for long.
    pub slot: Option<Slot>,
}

impl Arrival {
    /// A connection as it was accepted.
    pub fn new(socket: OwnedFd, peer: Option<NetAddress>, now_ns: u64) -> Arrival {
        Arrival { socket, peer, key_bytes: Vec::new(), since_ns: now_ns, slot: None }
    }

    /// The same, decided by its peer's address where the rule goes by that.
    pub fn by_rule(mut self, rule: Rule) -> Arrival {
        if let (Rule::Address, Some(peer)) = (rule, self.peer) {
            self.key_bytes = address_bytes(peer).to_vec();
        }
        self
    }

    /// The same, decided by its first bytes.
    pub fn by_content(mut self, first: &[u8], now_ns: u64) -> Arrival {
        if let Key::Bytes(line) = Key::of_first(first) {
            self.key_bytes = line.to_vec();
        }
        self.since_ns = now_ns;
        self
    }

    /// What the rule goes by.
    pub fn key(&self) -> Key<'_> {
        match self.key_bytes.is_empty() {
            true => Key::None,
            false => Key::Bytes(&self.key_bytes),
        }
    }
}
