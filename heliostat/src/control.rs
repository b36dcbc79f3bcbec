//! Where the control plane is, and why a request to it failed.
//!
//! Asked only for names of regions and for delegated files. A program under `heliostat run` has a
//! session of the preloaded library besides; this one is its own. Greeted at the first request, and
//! never waited for longer than half a second.
//!
//! ```
//! use heliostat::control::{self, ControlError};
//! use heliostat::snapshot::{self, NamedError};
//!
//! control::configure("/nonexistent/control.sock", "example");
//! let answer = snapshot::attach("heat");
//! assert!(matches!(answer, Err(NamedError::Control(ControlError::NotRunning(_)))));
//! ```

use heliostat_abi::place::{Surroundings, RUNTIME_VARIABLE, SOCKET_VARIABLE};
use heliostat_base::process;
use heliostat_client::session;

pub use heliostat_abi::code::Code;
pub use heliostat_abi::session::record::Bound;
pub use heliostat_client::ControlError;

/// Says on which socket the control plane listens, and what this program is called there. Once, before
/// the first request: the first call counts.
pub fn configure(socket_path: &str, program: &str) {
    session::configure(socket_path.to_owned(), program.to_owned());
}

/// As [`configure`], with the usual socket: `HELIOSTAT_SOCKET`, or the user's own.
pub fn configure_as_usual(program: &str) {
    let place = Surroundings {
        socket: std::env::var_os(SOCKET_VARIABLE),
        runtime: std::env::var_os(RUNTIME_VARIABLE),
        uid: process::effective_uid(),
    };
    configure(&place.socket_path().display().to_string(), program);
}

/// In the child of a fork: closes the session of the parent, which the control plane would otherwise
/// take for alive while this child lives. The child's own begins with its next request.
pub fn forget_after_fork() {
    session::forget_in_forked_child();
}
