//! `heliostat store`: the store in which areas last, from the command line.
//!
//! `init` needs no control plane. The others ask it; a store that lies somewhere is shown by its own
//! format, and nothing is written to it.

mod init;
mod offline;
mod shown;

pub use shown::{explain_text, status_text};

use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::store::{NotDone, StoreInfo, StoreReply, StoreRequest};
use heliostat_backend_block::OpenError;
use heliostat_backend_store::StoreFailed;
use heliostat_client::{exchange, ControlError};
use heliostat_storefile::StoreError;
use serde_json::Value;

use crate::args::store::StoreCommand;
use crate::args::{ControlPlace, Format};
use crate::client::{self, connect, ClientError};
use crate::place::surroundings;
use crate::show::{print, ShowError};

/// Why it was not done.
#[derive(Debug)]
enum StoreFault {
    /// There is no control plane, it says no, or answers something else.
    Client(ClientError),
    /// The store says no.
    NotDone(NotDone),
    /// The file or disk cannot be opened or made.
    Device(PathBuf, OpenError),
    /// The file or disk cannot be read.
    Read(PathBuf, std::io::Error),
    /// No store can be made there, or none is there.
    Store(PathBuf, StoreFailed),
    /// A size was needed, or cannot be had.
    Size(String),
    /// Something is there already.
    NotEmpty(PathBuf),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::NotDone(not_done) => not_done.fmt(f),
            Self::Device(path, OpenError::InUse) => write!(
                f,
                "{}: the device is in use; a control plane that has it tells: heliostat store inspect",
                path.display()
            ),
            Self::Device(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Store(path, StoreFailed::Store(error @ StoreError::Exists { .. })) => {
                write!(f, "{}: {error}; --force makes a new one and loses it", path.display())
            }
            Self::Store(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Size(why) => f.write_str(why),
            Self::NotEmpty(path) => write!(
                f,
                "{}: there is something that is no store; --force overwrites it and loses it",
                path.display()
            ),
            Self::Show(error) => error.fmt(f),
        }
    }
}

impl From<ControlError> for StoreFault {
    fn from(error: ControlError) -> Self {
        Self::Client(error.into())
    }
}

/// Does what the command line says.
pub fn run(command: &StoreCommand) -> ExitCode {
    let done = match command {
        StoreCommand::Init(arguments) => init::init(arguments),
        StoreCommand::Inspect { path: Some(path), format } => offline::inspect(path, format.json),
        StoreCommand::Inspect { path: None, format } => inspect(format),
        StoreCommand::Attach { path, place } => attach(path, place),
        StoreCommand::Detach(place) => ask(place, &StoreRequest::Detach, &[]).map(|_| ()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn inspect(format: &Format) -> Result<(), StoreFault> {
    let info = told(ask(&format.place, &StoreRequest::Store, &[])?)?;
    let driven = driven(&format.place)?;
    let text = match format.json {
        true => {
            let mut told = shown::info_json(&info);
            told["driven"] = driven;
            format!("{told}\n")
        }
        false => shown::info_text(&info) + &shown::driven_line(&driven),
    };
    print(&text).map_err(StoreFault::Show)
}

/// Which way the control plane drives the store, as its status says; nothing where there is none.
fn driven(place: &ControlPlace) -> Result<Value, StoreFault> {
    let text = client::ask(&surroundings(place), &Request::Status).map_err(StoreFault::Client)?;
    let status: Value = serde_json::from_str(&text)
        .map_err(|error| StoreFault::Client(ClientError::Text(error.to_string())))?;
    Ok(status["store"]["driven"].clone())
}

/// Shows the control plane the file or disk, opened by whoever asks: who may not open it may not give it
/// away.
fn attach(path: &Path, place: &ControlPlace) -> Result<(), StoreFault> {
    let opened = File::options().read(true).write(true).open(path);
    let file = opened.map_err(|error| StoreFault::Read(path.to_owned(), error))?;
    let info = told(ask(place, &StoreRequest::Attach, &[file.as_raw_fd()])?)?;
    print(&shown::info_text(&info)).map_err(StoreFault::Show)
}

/// Asks the control plane, as a person and not as a program's session.
fn ask(
    place: &ControlPlace,
    request: &StoreRequest,
    fds: &[i32],
) -> Result<Option<StoreReply>, StoreFault> {
    let socket = connect(&surroundings(place)).map_err(StoreFault::Client)?;
    match exchange(&socket, &Request::Own(request.encode()), fds, 1)?.0 {
        Reply::Done => Ok(None),
        Reply::Own(own) => match StoreReply::decode(&own) {
            Ok(StoreReply::NotDone(not_done)) => Err(StoreFault::NotDone(not_done)),
            Ok(reply) => Ok(Some(reply)),
            Err(error) => Err(ControlError::Malformed(error).into()),
        },
        refusal @ Reply::Refused { .. } => Err(ControlError::from(&refusal).into()),
        other => Err(StoreFault::Client(ClientError::Unexpected(Box::new(other)))),
    }
}

fn told(reply: Option<StoreReply>) -> Result<StoreInfo, StoreFault> {
    match reply {
        Some(StoreReply::Store(info)) => Ok(info),
        Some(other) => {
            let other = Reply::Own(Box::new(other.encode()));
            Err(StoreFault::Client(ClientError::Unexpected(Box::new(other))))
        }
        None => Err(StoreFault::Client(ClientError::Unexpected(Box::new(Reply::Done)))),
    }
}
