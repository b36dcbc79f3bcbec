//! `heliostat snapshot`: named regions and their versions, from the command line.
//!
//! The control plane is asked which regions there are; bytes are read as any consumer reads them,
//! through `heliostat-stub-snapshot`.

mod diff;
mod error;
mod export;
mod files;
mod list;
mod live;
mod npy;
mod pending;
mod pipeline;
mod progress;
mod publish;
mod save;
mod show_file;
mod watch;

use std::process::ExitCode;

use crate::args::snapshot::SnapshotCommand;
use error::SnapshotError;

/// Does what the command line says. `diff` has the statuses of diff(1).
pub fn run(command: &SnapshotCommand) -> ExitCode {
    let done = match command {
        SnapshotCommand::List(arguments) => list::list(arguments),
        SnapshotCommand::Publish(arguments) => publish::publish(arguments),
        SnapshotCommand::Memory { pid } => publish::memory(*pid),
        SnapshotCommand::Save(arguments) => save::save(arguments),
        SnapshotCommand::Export(arguments) => export::export(arguments),
        SnapshotCommand::Show(arguments) => show_file::show(arguments),
        SnapshotCommand::Watch(arguments) => watch::watch(arguments),
        SnapshotCommand::Diff(arguments) => {
            return match diff::diff(arguments) {
                Ok(is_same) => ExitCode::from(u8::from(!is_same)),
                Err(error) => fail(&error, 2),
            }
        }
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
