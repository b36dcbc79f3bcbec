//! `heliostat coprocessor`: workers that have files and sockets by shared memory, and nothing else.
//!
//! ```text
//! run ---- for each worker: a session (confined), a window, rings of files and of sockets
//!   '----- become (pinned, dies with us) --> run --sealed --> PROGRAM, with the memory's descriptors
//! ```
//! The sessions' connections stay here: a worker has none to the control plane, so that it can ask for
//! nothing. A worker that ends takes its own session along and no other's.

mod cores;
mod grants;
mod session;
mod start;
mod watch;
mod workers;

use std::process::ExitCode;

use heliostat_base::affinity;
use rustix::process::{getppid, set_parent_process_death_signal, Pid, Signal};

use crate::args::coprocessor::{BecomeArguments, CoprocessorArguments, CoprocessorCommand};
use crate::client::ClientError;
use crate::ensure;
use crate::image::{self, Environment};
use crate::place::surroundings;
use crate::program;
use crate::say::say;

/// Exit status when the command itself fails, as env(1) has it.
const OWN_FAILURE: u8 = 125;

/// Why workers do not run.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A word of the command line.
    Word(String),
    /// There is no control plane, or it says no.
    Client(ClientError),
    /// The system's answer, and to what.
    System(&'static str, std::io::Error),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(why) => f.write_str(why),
            Self::Client(error) => error.fmt(f),
            Self::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

/// Does what the command line says.
pub fn run(command: &CoprocessorCommand) -> ExitCode {
    match command {
        CoprocessorCommand::Run(arguments) => match run_workers(arguments) {
            Ok(status) => ExitCode::from(status),
            Err(fault) => {
                say(format_args!("no workers run: {fault}"));
                ExitCode::from(OWN_FAILURE)
            }
        },
        CoprocessorCommand::Become(arguments) => become_worker(arguments),
    }
}

fn run_workers(arguments: &CoprocessorArguments) -> Result<u8, Fault> {
    let here = surroundings(&arguments.place);
    ensure::ensure(&here, arguments.config.as_deref())
        .map_err(|error| Fault::Word(error.to_string()))?;
    let reach = grants::reach(arguments)?;
    let cores = cores::chosen(arguments.cores.as_deref(), &here)?;
    workers::run(arguments, &here, &reach, &cores)
}

/// Pins this process, ties it to its parent's life, and becomes the program.
fn become_worker(arguments: &BecomeArguments) -> ExitCode {
    if let Some(core) = arguments.core {
        if let Err(errno) = affinity::pin(core) {
            say(format_args!("the worker shares cores: it cannot have core {core} ({errno})"));
        }
    }
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Pid::from_raw(arguments.parent) {
        return ExitCode::from(OWN_FAILURE);
    }
    let Some(name) = arguments.program.first() else { return ExitCode::from(OWN_FAILURE) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = match program::find(name, &path) {
        Ok(file) => file,
        Err(error) => {
            say(format_args!("{}: {error}", name.to_string_lossy()));
            return ExitCode::from(error.status());
        }
    };
    let error = image::become_program(&file, &arguments.program, &Environment::inherited());
    say(format_args!("{}: {error}", name.to_string_lossy()));
    ExitCode::from(126)
}
