//! Who asks the memory service for something.

use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Holder;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The session.
    pub session: ObjectId,
    /// Whose share its things count against.
    pub holder: Holder,
    /// Its user.
    pub uid: u32,
    /// Whether it may map arenas of its user.
    pub maps: bool,
    /// Whether it counts as its user; a restricted session is somebody else to that user's regions.
    pub is_user: bool,
}
