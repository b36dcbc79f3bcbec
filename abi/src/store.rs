//! Durable storage that programs share by name: names, rights, limits.
//!
//! An *area* is so many bytes of a store, which has a name among those of one user and lasts over
//! restarts. Who has a *handle* on it reads and writes it by a server loop. `docs/store-format.md` tells
//! what lies on the disk.

pub mod alone;
pub mod durability;
pub mod info;
pub mod limits;
pub mod listed;
pub mod name;
pub mod not_done;
pub mod reply;
pub mod request;
pub mod rights;
pub mod way;

pub use crate::file::delegated::area_operation as operation;
pub use alone::Alone;
pub use durability::DurableBy;
pub use info::{StoreInfo, StoreState};
pub use listed::ListedArea;
pub use name::AreaName;
pub use not_done::{NotDone, Why};
pub use reply::{OpenedArea, Piece, StoreReply};
pub use request::{Creation, StoreRequest};
pub use rights::AreaRights;
pub use way::{Spill, Way, WayWanted};

/// What an area is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum AreaKind {
    /// Bytes.
    #[default]
    Raw = 1,
    /// A log.
    Log = 2,
    /// A queue.
    Queue = 3,
}

impl AreaKind {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            AreaKind::Raw => "raw",
            AreaKind::Log => "log",
            AreaKind::Queue => "queue",
        }
    }

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<AreaKind> {
        [AreaKind::Raw, AreaKind::Log, AreaKind::Queue].into_iter().find(|it| *it as u8 == number)
    }
}
