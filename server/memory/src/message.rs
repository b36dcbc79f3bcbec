//! What the control plane and the loops tell each other of memory regions.

use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::Area;
use heliostat_server_node::PeerNode;
use heliostat_service_grant::Meter;

use super::there::{Answered, There};

/// A session's handle on a region.
pub struct Hold {
    /// Whose.
    pub session: ObjectId,
    /// By which name its operations mean it.
    pub handle: ObjectId,
    /// The region, by whose word it is used.
    pub region: ObjectId,
    /// What may be done.
    pub rights: Rights,
    /// Where its bytes lie.
    pub area: Arc<Area>,
    /// The epoch of its word for which that holds.
    pub epoch: u32,
}

/// To a server loop.
pub enum MemoryOrder {
    /// A session has a handle from now on.
    Hold(Box<Hold>),
    /// So much may be done by a handle that comes after this, or is there: its region's name has a rate.
    Limit {
        /// Whose.
        session: ObjectId,
        /// Which.
        handle: ObjectId,
        /// How much, by all who share it.
        meter: Meter,
    },
    /// What is done by a handle on another node is of this class; it comes after this, or is there.
    Class {
        /// Whose.
        session: ObjectId,
        /// Which.
        handle: ObjectId,
        /// How urgent.
        class: Class,
    },
    /// It has none any more.
    Drop {
        /// Whose.
        session: ObjectId,
        /// Which.
        handle: ObjectId,
    },
    /// A region's bytes lie here from now on, since it has grown or was moved. Its word says so already.
    Place {
        /// Which region.
        region: ObjectId,
        /// Where.
        area: Arc<Area>,
        /// The epoch of its word for which that holds.
        epoch: u32,
    },
    /// A region's bytes lie where nobody here can reach them: its handles are no more.
    Lose {
        /// Which region.
        region: ObjectId,
    },
    /// A session has a handle on a region of another node from now on; `Drop` ends it.
    HoldThere {
        /// Whose.
        session: ObjectId,
        /// By which name its operations mean it.
        handle: ObjectId,
        /// Where it leads.
        there: There,
    },
    /// A node is lost: handles there lead nowhere.
    LosePeer(PeerNode),
    /// A part of an operation has its answer from another node.
    Answered(Box<Answered>),
    /// The region's word says that it moves, or is gone: asks for `Left`.
    Leave {
        /// Which region.
        region: ObjectId,
        /// The epoch of that word, for the answer.
        epoch: u32,
    },
}

/// From a server loop.
pub enum MemoryEvent {
    /// The loop touches nothing by a handle any more. Comes once for each `Hold`, whatever has ended
    /// it: `Drop`, `Lose`, the session's end or the loop's, or that the loop never knew the session.
    Released {
        /// Whose.
        session: ObjectId,
        /// Which.
        handle: ObjectId,
    },
    /// No operation of this loop is on the region's bytes, and none will be before `Place`.
    Left {
        /// The loop's number.
        number: usize,
        /// Which region.
        region: ObjectId,
        /// As it was told.
        epoch: u32,
    },
}
