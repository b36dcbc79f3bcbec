//! Who asks the lock service for something.

use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Holder;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The session.
    pub session: ObjectId,
    /// Whose share its things count against.
    pub holder: Holder,
}
