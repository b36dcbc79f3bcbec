//! `heliostat cores`: shows the machine's cores, parts them, measures partitions.

mod auto;
mod join;
mod measured;
mod place;
mod plot;
mod set;
mod show;
mod stages;
mod trial;

use std::fmt;
use std::io;
use std::process::ExitCode;

use heliostat_client::ControlError;
use heliostat_service_cores::{Fault, PlanError};

pub use join::join;
pub use measured::Measured;
pub use place::journal_path;
pub use show::ability_text;

use crate::args::cores::{CoresArguments, CoresCommand};
use crate::client::ClientError;
use crate::ensure::EnsureError;
use crate::show::ShowError;

/// Why it was not done.
#[derive(Debug)]
pub enum CoresError {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// None could be started.
    Ensure(EnsureError),
    /// The control plane says no.
    Control(ControlError),
    /// The control plane answered what no control plane answers.
    Corrupt,
    /// There is no such partition.
    Plan(Box<PlanError>),
    /// The list is none.
    List(String),
    /// Something is being changed, and goes on for long.
    Busy,
    /// The control plane could not carry it out.
    Failed(String),
    /// The journal cannot be read or ended.
    Journal(Fault),
    /// The expression is none, or has no brackets.
    Figure(String),
    /// The command could not be measured.
    Command(String),
    /// The plot was not written.
    Plot(String),
    /// What offloaded calls cost could not be measured.
    Stages(String),
    /// Nothing was shown.
    Show(ShowError),
}

impl From<ClientError> for CoresError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<ControlError> for CoresError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<ShowError> for CoresError {
    fn from(error: ShowError) -> Self {
        Self::Show(error)
    }
}

impl From<PlanError> for CoresError {
    fn from(error: PlanError) -> Self {
        Self::Plan(Box::new(error))
    }
}

impl fmt::Display for CoresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Ensure(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the control plane answered nonsense"),
            Self::Plan(error) => error.fmt(f),
            Self::List(why) => f.write_str(why),
            Self::Busy => f.write_str("the control plane is changing cores, and does not end"),
            Self::Failed(why) => write!(f, "cores are as they were: {why}"),
            Self::Journal(fault) => write!(f, "the journal of cores: {}", fault_text(*fault)),
            Self::Figure(why) => write!(f, "--figure: {why}"),
            Self::Command(why) => write!(f, "{why}; cores are not parted"),
            Self::Plot(why) => write!(f, "the plot is not written: {why}"),
            Self::Stages(why) => f.write_str(why),
            Self::Show(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CoresError {}

fn fault_text(fault: Fault) -> String {
    match fault {
        Fault::Gone => "it is gone".to_owned(),
        Fault::Refused(number) => io::Error::from_raw_os_error(number).to_string(),
    }
}

/// Does what the command line says.
pub fn run(arguments: &CoresArguments) -> ExitCode {
    let done = match &arguments.command {
        Some(CoresCommand::Reset(format)) => set::reset(format),
        None if arguments.auto => auto::run(arguments),
        None if arguments.stages => stages::stages(arguments.stage_core, arguments.format.json),
        None if !arguments.program.is_empty() => {
            Err(CoresError::Command("a command is measured with --auto".to_owned()))
        }
        None if arguments.wanted.is_some() => set::set(&arguments.wanted, &arguments.format),
        None => show::show(&arguments.format),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}
