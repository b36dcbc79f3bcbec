//! The rules: who of those that may take the next connection does.
//!
//! ```text
//! Balance      workers with queues of their own    --\  place, load
//! MemberTurns  members that ask for each connection --+-----------> Choice --> one of them
//! ```
//! Each rule is here once, whoever feeds the loads. Who may take one at all is for the caller to say.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::NetAddress;

/// How long a connection waits for the one that the rule names for it, before another takes it.
pub const BOUND_NS: u64 = 1_000_000_000;
/// A first line ends with it.
const LINE_END: u8 = b'\n';

/// What a decision may go by, beside load and turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key<'a> {
    /// Nothing.
    None,
    /// Bytes: those of an address, or the first of a connection. Equal ones go to one worker.
    Bytes(&'a [u8]),
    /// The place that a plug-in has named.
    Place(u32),
}

impl<'a> Key<'a> {
    /// The key in a connection's first bytes: its first line, or as much as there is of it.
    pub fn of_first(bytes: &'a [u8]) -> Key<'a> {
        let line = bytes.split(|byte| *byte == LINE_END).next().unwrap_or(bytes);
        if line.is_empty() {
            Key::None
        } else {
            Key::Bytes(line)
        }
    }
}

/// Whether first bytes decide: a whole line, as many as are looked at, or all that there will be.
pub fn decides(bytes: &[u8], bytes_max: usize, is_end: bool) -> bool {
    bytes.len() >= bytes_max || is_end || bytes.contains(&LINE_END)
}

/// The bytes of a peer's address by which the rule goes.
pub fn address_bytes(peer: NetAddress) -> [u8; 16] {
    match peer.ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// One that may take a connection.
pub trait Candidate {
    /// Its place: the smallest number that was free when it came.
    fn place(&self) -> u32;
    /// How loaded it is.
    fn load(&self) -> u64;
}

/// A rule, and whose turn it is by it.
#[derive(Clone, Debug)]
pub struct Choice {
    rule: Rule,
    /// The place whose turn it is, or the next one.
    turn: u32,
    /// So that nobody outside can aim at one worker.
    seed: u64,
}

impl Choice {
    /// The turn is that of the first place.
    pub fn new(rule: Rule, seed: u64) -> Choice {
        Choice { rule, turn: 0, seed }
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Another rule for connections to come.
    pub fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Whether the rule says who it is to be, however loaded that one is.
    pub fn is_bound(&self) -> bool {
        matches!(self.rule, Rule::Address | Rule::Content(_) | Rule::Plugin(_))
    }

    /// Whether it says so of a connection with this key.
    pub fn binds(&self, key: Key<'_>) -> bool {
        self.is_bound() && key != Key::None
    }

    /// The one of these that the rule prefers.
    pub fn best<C: Candidate>(&self, key: Key<'_>, of: impl Iterator<Item = C>) -> Option<C> {
        let distance = |it: &C| it.place().wrapping_sub(self.turn);
        let by_load = |it: &C| (it.load(), distance(it));
        match (self.rule, key) {
            (Rule::RoundRobin, _) => of.min_by_key(distance),
            (Rule::Address | Rule::Content(_), Key::Bytes(bytes)) => {
                of.max_by_key(|it| (self.weight(it.place(), bytes), Reverse(it.place())))
            }
            (Rule::Plugin(_), Key::Place(place)) => {
                of.min_by_key(|it| (it.place() != place, by_load(it)))
            }
            _ => of.min_by_key(by_load),
        }
    }

    /// The one at this place had its turn.
    pub fn took(&mut self, place: u32) {
        self.turn = place + 1;
    }

    /// Rendezvous hashing: who leaves takes only its own keys along, to all others alike.
    fn weight(&self, place: u32, bytes: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, place, bytes).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_decides_and_is_the_key_without_its_end() {
        assert!(decides(b"GET /\r\nHost", 256, false) && !decides(b"GET /", 256, false));
        assert!(decides(b"GET /", 256, true) && decides(b"GET /", 5, false));
        assert_eq!(Key::of_first(b"one\ntwo"), Key::Bytes(b"one"));
        assert_eq!([Key::of_first(b""), Key::of_first(b"\nx")], [Key::None; 2]);
    }
}
