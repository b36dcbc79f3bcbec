//! Remote procedure calls: how many functions a user may have, and who may call and serve.

use heliostat_abi::file::delegated::SESSIONS_MAX;
use heliostat_abi::rpc::limits::{FUNCTIONS_MAX, FUNCTIONS_PER_SESSION_MAX, WINDOW_BYTES_MAX};

use super::error::ConfigError;
use super::field::Field;

/// Smallest window: room for a few short calls.
const WINDOW_BYTES_MIN: u64 = 1 << 16;

/// Remote procedure calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rpc {
    /// Functions that one session serves and calls.
    pub functions_per_session: usize,
    /// Functions of one user.
    pub functions_per_user: usize,
    /// Sessions that call or serve at once; 0 switches remote procedure calls off.
    pub sessions: usize,
    /// Of these, one user's.
    pub sessions_per_user: usize,
    /// Largest window of one.
    pub window_bytes: u64,
}

impl Default for Rpc {
    fn default() -> Self {
        Self {
            functions_per_session: FUNCTIONS_PER_SESSION_MAX,
            // Of one user half of what the node has, as of sessions.
            functions_per_user: FUNCTIONS_MAX / 2,
            sessions: SESSIONS_MAX,
            sessions_per_user: SESSIONS_MAX / 2,
            window_bytes: WINDOW_BYTES_MAX,
        }
    }
}

impl Rpc {
    /// From the table `[rpc]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Rpc, ConfigError> {
        let section = field.section(&[
            "functions_per_session",
            "functions_per_user",
            "sessions",
            "sessions_per_user",
            "window_bytes",
        ])?;
        let mut rpc = Rpc::default();
        let functions = (1, FUNCTIONS_PER_SESSION_MAX as u64);
        section.number("functions_per_session", functions, &mut rpc.functions_per_session)?;
        let functions = (1, FUNCTIONS_MAX as u64);
        section.number("functions_per_user", functions, &mut rpc.functions_per_user)?;
        let sessions = SESSIONS_MAX as u64;
        section.number("sessions", (0, sessions), &mut rpc.sessions)?;
        section.number("sessions_per_user", (1, sessions), &mut rpc.sessions_per_user)?;
        let window = (WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        section.number("window_bytes", window, &mut rpc.window_bytes)?;
        Ok(rpc)
    }
}
