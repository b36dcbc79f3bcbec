//! What is kept of a region on its way, and of how that ended.

use heliostat_abi::memory::Piece;
use heliostat_abi::name::ObjectId;

use crate::holders::Holders;

/// A region on its way.
#[derive(Clone, Debug)]
pub(crate) struct Moving {
    /// Where it goes; nowhere here if it leaves for another node.
    pub(crate) pieces: Vec<Piece>,
    /// Handles by which a loop may be in it.
    pub(crate) loops: Holders,
    /// Handles by which a session that maps it may be.
    pub(crate) direct: Holders,
    /// When whoever has not left is waited for no longer.
    pub(crate) until_ns: u64,
    /// Everybody has left.
    pub(crate) is_copying: bool,
}

/// How the last move of a region ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MoveEnd {
    /// There was none.
    #[default]
    None,
    /// It lies elsewhere.
    Done,
    /// Somebody has not left in time: this session, if its handle is still there.
    Held(ObjectId),
    /// The bytes could not be copied.
    Failed,
}
