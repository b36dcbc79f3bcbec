//! `heliostat start`: makes sure that a control plane runs, and says where.
//!
//! For programs that bring no `heliostat run` of their own, such as the Python package: the path
//! is all that standard output gets, absolute, so that it may go into HELIOSTAT_SOCKET as it is.

use std::process::ExitCode;

use crate::args::StartArguments;
use crate::ensure;
use crate::place::surroundings;
use crate::say::say;
use crate::show;

/// Starts the control plane if none answers. One that this brings up ends like one that `run`
/// brings up: when nobody has used it for a while.
pub fn start(arguments: &StartArguments) -> ExitCode {
    match ensured(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(format_args!("{why}"));
            ExitCode::FAILURE
        }
    }
}

fn ensured(arguments: &StartArguments) -> Result<(), String> {
    let here = surroundings(&arguments.place);
    let socket = std::path::absolute(here.socket_path()).map_err(|error| error.to_string())?;
    ensure::ensure(&here, arguments.config.as_deref()).map_err(|error| error.to_string())?;
    show::print(&format!("{}\n", socket.display())).map_err(|error| error.to_string())
}
