//! `heliostat snapshot`: named regions and their versions, from the command line.
//!
//! The control plane is asked which regions there are; bytes are read as any consumer reads them,
//! through `heliostat-stub`.

mod args;
mod error;
mod list;
mod live;

use std::process::ExitCode;

pub use args::SnapshotCommand;
use error::SnapshotError;

/// Does what the command line says. Only `diff` has other statuses than 0 and 1.
pub fn run(command: &SnapshotCommand) -> ExitCode {
    let done = match command {
        SnapshotCommand::List(arguments) => list::list(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, 1),
    }
}

fn fail(error: &SnapshotError, status: u8) -> ExitCode {
    eprintln!("heliostat: {error}");
    ExitCode::from(status)
}
