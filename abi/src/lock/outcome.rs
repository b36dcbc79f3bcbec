//! How a ticket stands.

use crate::wire::{Reader, WireError, Writer};

/// Why a barrier is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Why {
    /// A session that had it open has ended without closing it, or was revoked.
    Died = 1,
    /// A participant that had arrived does not wait any more.
    GaveUp = 2,
    /// Somebody has reset it.
    Reset = 3,
}

impl Why {
    const ALL: [Why; 3] = [Why::Died, Why::GaveUp, Why::Reset];

    /// In words for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Died => "a participant has died",
            Self::GaveUp => "a participant did not wait any longer",
            Self::Reset => "it was reset",
        }
    }

    fn from_number(found: u32) -> Result<Why, WireError> {
        let wrong = WireError::Field { name: "why", found: u64::from(found) };
        Self::ALL.into_iter().find(|why| *why as u32 == found).ok_or(wrong)
    }
}

/// How a ticket stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It would have to wait, and was not asked to: there is no ticket.
    Busy,
    /// It waits; an event will tell its end.
    Queued,
    /// It holds what it claimed.
    Granted {
        /// Larger than that of every acquisition before it, of any lock of this node.
        token: u64,
        /// A holder before it has died, and nobody who was told so has released since: what the lock
        /// protects may be half changed.
        has_owner_died: bool,
    },
    /// All participants have arrived.
    Passed {
        /// Which time that was, from 1 on.
        generation: u64,
        /// How many had arrived before this one.
        index: u32,
    },
    /// The barrier is broken until somebody resets it.
    Broken {
        /// Which time it was to be.
        generation: u64,
        /// Why.
        why: Why,
    },
    /// The node that decides is lost: what waited there does not wait any more, and what was held there
    /// is held no more. All participants of a barrier may have arrived before that.
    Lost {
        /// Which.
        node: u64,
    },
}

impl Outcome {
    /// Bytes in a record.
    pub const BYTES: usize = 16;

    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        match self {
            Self::Busy => w.u32(0).u32(0).u64(0),
            Self::Queued => w.u32(1).u32(0).u64(0),
            Self::Granted { token, has_owner_died } => {
                w.u32(2).u32(u32::from(has_owner_died)).u64(token)
            }
            Self::Passed { generation, index } => w.u32(3).u32(index).u64(generation),
            Self::Broken { generation, why } => w.u32(4).u32(why as u32).u64(generation),
            Self::Lost { node } => w.u32(5).u32(0).u64(node),
        };
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        match (r.u32(), r.u32(), r.u64()) {
            (0, 0, 0) => Ok(Self::Busy),
            (1, 0, 0) => Ok(Self::Queued),
            (2, flag @ 0..=1, token) => Ok(Self::Granted { token, has_owner_died: flag == 1 }),
            (3, index, generation) => Ok(Self::Passed { generation, index }),
            (4, why, generation) => Ok(Self::Broken { generation, why: Why::from_number(why)? }),
            (5, 0, node) => Ok(Self::Lost { node }),
            (found, ..) => Err(WireError::Field { name: "outcome", found: u64::from(found) }),
        }
    }
}
