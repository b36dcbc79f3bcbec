//! How much of a store there may be, whatever a configuration says.

/// Areas of a node: as many as one store may have.
pub const AREAS_MAX: usize = 1 << 16;
/// Handles on areas, of all sessions.
pub const AREA_HANDLES_MAX: usize = 1 << 16;
