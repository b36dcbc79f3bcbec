//! Quality of service on the way to a node: what a class of calls may have of it, and when.
//!
//! ```text
//! separate resources   each class: its own queue, its own share of the window      (shares)
//! back-off             low ones: as many bytes a second as high ones bear          (backoff)
//! ```
//!
//! Both may be on at once; with neither all calls are one class, in the order in which they were made.
//! Nothing here has a clock, a thread or a peer: times come in, and the tests simulate a way.

pub(crate) mod backoff;
pub(crate) mod lanes;
mod shares;

#[cfg(test)]
mod simulated;

use std::collections::BTreeMap;

use heliostat_abi::cluster::Class;

use backoff::Pace;
pub use shares::Shares;

/// What is done for classes, and which class other nodes may have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quality {
    /// Each class has its own share, if one is given.
    pub shares: Option<Shares>,
    /// Low calls are slowed by what high ones bear, if this is given.
    pub back_off: Option<BackOff>,
    /// The most urgent class that requests of a node may have here; any where none is named.
    pub ceilings: BTreeMap<u64, Class>,
}

/// When low calls are slowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackOff {
    /// The longest round trip of a short high call, in nanoseconds; 0: it is learnt.
    pub round_trip_ns: u64,
}

/// What has become of calls of one class on the way to a node, and what is there now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Calls sent.
    pub calls: u64,
    /// Bytes of them, with what each counts besides.
    pub bytes: u64,
    /// Calls that waited for room or for their time.
    pub waited: u64,
    /// Calls that found no place to wait.
    pub refused: u64,
    /// Calls that have no answer.
    pub under_way: u64,
    /// Bytes of those.
    pub on_way_bytes: u64,
    /// Calls that wait.
    pub waiting: u64,
    /// Requests of the node that were served here.
    pub served: u64,
}

/// How the way to a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WayState {
    /// By [`Class::place`].
    pub classes: [ClassCounts; 3],
    /// Bytes a second that low calls may have; 0 for any.
    pub low_per_second: u64,
    /// Why.
    pub pace: Pace,
    /// How often low calls were slowed, and how often they were let go faster again.
    pub slowed: u64,
    /// The latter.
    pub released: u64,
    /// The round trip of the last short high call, in nanoseconds; 0 where there was none.
    pub high_round_trip_ns: u64,
}

impl Quality {
    /// The class that a request of a node has here, whatever it says itself.
    pub(crate) fn class_of(&self, node: u64, said: Class) -> Class {
        self.ceilings.get(&node).map_or(said, |most| said.min(*most))
    }
}
