//! One other node: its state, and when it is sought again.

use heliostat_abi::cluster::{MemberAddress, MemberState};

/// The first wait after a join that failed, at most.
pub const RETRY_NS_MIN: u64 = 100_000_000;
/// The longest wait: a node that starts joins the others by itself, so this is for those that cannot.
pub const RETRY_NS_MAX: u64 = 5_000_000_000;

/// One other node, as this one sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Where it is sought; nowhere for one that came by itself.
    pub address: MemberAddress,
    /// What it is now.
    pub state: MemberState,
    /// Which life of it was joined last; 0 for none. An earlier one is not taken in.
    pub incarnation: u64,
    /// Since when it is in its state.
    pub since_ns: u64,
    /// How long a message took there and back, when it was measured last.
    pub round_trip_ns: Option<u64>,
    /// Whether it was left by command: whoever comes with its number is left again.
    pub is_left_here: bool,
    /// Joins that failed since it was joined or sought by command.
    pub failures: u32,
    /// When it is sought next.
    pub retry_ns: Option<u64>,
    /// What it is again when a join fails.
    pub(crate) before: MemberState,
    /// The link that it is joined by, or was last.
    pub(crate) link: u64,
    /// Whether it is sought though no registry names it: it is on the list, or a command named it.
    pub(crate) is_listed: bool,
}

impl Member {
    /// One that is to be sought at once.
    pub(crate) fn sought(address: MemberAddress, now_ns: u64) -> Member {
        Member {
            address,
            state: MemberState::Away,
            incarnation: 0,
            since_ns: now_ns,
            round_trip_ns: None,
            is_left_here: false,
            failures: 0,
            retry_ns: Some(now_ns),
            before: MemberState::Away,
            link: 0,
            is_listed: true,
        }
    }

    /// One that came by itself.
    pub(crate) fn guest(now_ns: u64) -> Member {
        let sought = Member::sought(MemberAddress::NONE, now_ns);
        Member { retry_ns: None, is_listed: false, ..sought }
    }

    /// Moves on to a state.
    pub(crate) fn enter(&mut self, state: MemberState, now_ns: u64) {
        if self.state != state {
            self.state = state;
            self.since_ns = now_ns;
        }
    }

    /// A join failed, or the node is lost: it is sought again after a while, unless nobody knows where.
    /// Half of the wait is fixed and half by chance, so that nodes that lost each other at once do not
    /// meet again and again.
    pub(crate) fn retry_later(&mut self, now_ns: u64, chance: u64) {
        let doubled = RETRY_NS_MIN << self.failures.min(16);
        let wait_ns = doubled.min(RETRY_NS_MAX);
        let by_chance = chance % (wait_ns / 2 + 1);
        self.failures = self.failures.saturating_add(1);
        let at_ns = now_ns.saturating_add(wait_ns / 2 + by_chance);
        self.retry_ns = Some(at_ns).filter(|_| !self.address.is_none());
    }
}
