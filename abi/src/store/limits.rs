//! How much of a store there may be, whatever a configuration says.

/// Areas of a node: as many as one store may have.
pub const AREAS_MAX: usize = 1 << 16;
/// Handles on areas, of all sessions.
pub const AREA_HANDLES_MAX: usize = 1 << 16;
/// Handles that are direct at once: each is a descriptor of the device in some program.
pub const DIRECT_HANDLES_MAX: usize = 4096;
/// Largest window of a session.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// Areas in one answer to `List`.
pub const LISTED_PER_REPLY_MAX: usize = 3;
/// Pieces in one answer to `Pieces`. An area has 64 at most.
pub const PIECES_PER_REPLY_MAX: usize = 32;
/// Bytes of a text in an answer, which is for people.
pub const TEXT_BYTES_MAX: usize = 320;
