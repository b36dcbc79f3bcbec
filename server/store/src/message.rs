//! What the control plane and the loops tell each other of areas.

use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaRights, Piece};
use heliostat_backend_block::Device;
use heliostat_service_grant::Meter;

/// To a server loop.
pub enum StoreOrder {
    /// Areas lie on this device from now on. What the one before has under way fails.
    Device(Box<dyn Device>),
    /// An area, told before the first handle on it, and again when its bytes lie in more pieces.
    Area {
        /// Which.
        area: ObjectId,
        /// Its size.
        bytes: u64,
        /// Where its bytes lie on the device, in order.
        pieces: Arc<[Piece]>,
        /// How fast it may be read and written, by all sessions of all loops.
        meter: Meter,
    },
    /// An area is no more; nobody has a handle on it.
    Gone {
        /// Which.
        area: ObjectId,
    },
    /// A session has a handle from now on.
    Open {
        /// Whose. The loop may hear of it later.
        session: ObjectId,
        /// By which name its operations mean it.
        handle: ObjectId,
        /// On which area.
        area: ObjectId,
        /// What may be done.
        rights: AreaRights,
    },
    /// It has the handle no longer: asks for `LetGo`. What has not begun by it never does.
    Close {
        /// Whose.
        session: ObjectId,
        /// Which.
        handle: ObjectId,
    },
    /// An area has so many bytes from now on.
    Bytes {
        /// Which.
        area: ObjectId,
        /// Its size.
        bytes: u64,
        /// Asks for `Quiet`.
        is_asked: bool,
    },
    /// An area may be read and written as fast as this.
    Rate {
        /// Which.
        area: ObjectId,
        /// How fast, by all sessions of all loops.
        meter: Meter,
    },
}

/// From a server loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreEvent {
    /// Nothing is under way by a handle any more. Comes once for each `Close`.
    LetGo {
        /// Which.
        handle: ObjectId,
    },
    /// Nothing of this loop is under way behind the end of an area.
    Quiet {
        /// The loop's number.
        number: usize,
        /// Which area.
        area: ObjectId,
    },
    /// The loop's device has failed: all operations fail until there is another one. What it had under
    /// way counts as ended; whether it was done is open.
    DeviceFailed {
        /// The loop's number.
        number: usize,
        /// What the device answered.
        errno: i32,
    },
}
