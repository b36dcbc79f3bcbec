//! Which life of a node this is.

use std::time::SystemTime;

/// Larger after each start, as long as the clock is not set back between them.
pub(super) fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)).max(1)
}
