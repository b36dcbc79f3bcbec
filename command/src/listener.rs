//! `heliostat listener`: shared listeners, from the command line.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{ExitCode, Stdio};

use heliostat_abi::listener::{ListenerRequest, Rule};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_client::{session, ControlError};
use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};
use serde_json::Value;

use crate::args::listener::{ListenerCommand, PluginArguments, RuleArguments};
use crate::args::{ControlPlace, Format};
use crate::client::{ask, open_session, ClientError};
use crate::place::surroundings;
use crate::show::{print, ShowError};
use crate::table::{cell, list, Table};

/// Why it was not done.
#[derive(Debug)]
enum ListenerFault {
    /// There is no control plane, or none to be trusted, or it says no.
    Client(ClientError),
    /// It could not be shown.
    Show(ShowError),
    /// Nobody has named it so.
    NoWorker(String),
    /// There is none on that address.
    NotShared(SocketAddr),
    /// The plug-in did not begin.
    Plugin(std::io::Error),
}

impl fmt::Display for ListenerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Show(error) => error.fmt(f),
            Self::NoWorker(text) => {
                write!(
                    f,
                    "{text:?} names no worker: `heliostat listener inspect` shows them, as 3.1"
                )
            }
            Self::NotShared(address) => write!(f, "{address} is not a shared listener"),
            Self::Plugin(error) => write!(f, "the plug-in did not begin: {error}"),
        }
    }
}

/// Does what the command line says.
pub fn run(command: &ListenerCommand) -> ExitCode {
    let done = match command {
        ListenerCommand::List(format) => show_all(format),
        ListenerCommand::Inspect { address, format } => inspect(*address, format),
        ListenerCommand::Create(arguments) => {
            let (address, rule) = named(arguments);
            tell(&arguments.place, ListenerRequest::Create { address, rule }, &[])
        }
        ListenerCommand::Remove { address, place } => {
            tell(place, ListenerRequest::Remove { address: NetAddress::new(*address) }, &[])
        }
        ListenerCommand::Drain { worker, back, place } => parse_worker(worker)
            .and_then(|worker| tell(place, ListenerRequest::Drain { worker, back: *back }, &[])),
        ListenerCommand::Rule(arguments) => {
            let (address, rule) = named(arguments);
            tell(&arguments.place, ListenerRequest::SetRule { address, rule }, &[])
        }
        ListenerCommand::Plugin { rule, program } => return run_plugin(rule, program),
    };
    end(done)
}

fn end(done: Result<(), ListenerFault>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn named(arguments: &RuleArguments) -> (NetAddress, Rule) {
    (NetAddress::new(arguments.address), arguments.peek.of(arguments.rule))
}

fn tell(place: &ControlPlace, request: ListenerRequest, fds: &[i32]) -> Result<(), ListenerFault> {
    open_session(place).map_err(ListenerFault::Client)?;
    let refused = |error: ControlError| ListenerFault::Client(error.into());
    match session::ask(&Request::Own(request.encode()), fds).map_err(refused)? {
        (Reply::Done, _) => Ok(()),
        (other, _) => Err(refused((&other).into())),
    }
}

fn parse_worker(text: &str) -> Result<ObjectId, ListenerFault> {
    let parsed = text
        .split_once('.')
        .and_then(|(index, generation)| Some((index.parse().ok()?, generation.parse().ok()?)));
    let (index, generation) = parsed.ok_or_else(|| ListenerFault::NoWorker(text.to_owned()))?;
    Ok(ObjectId { index, generation })
}

fn listeners(place: &ControlPlace) -> Result<Value, ListenerFault> {
    let text = ask(&surroundings(place), &Request::Status).map_err(ListenerFault::Client)?;
    let status: Value =
        serde_json::from_str(&text).map_err(|error| ListenerFault::Show(ShowError::Json(error)))?;
    Ok(status["listeners"].clone())
}

fn show_all(format: &Format) -> Result<(), ListenerFault> {
    let found = listeners(&format.place)?;
    let text = if format.json { format!("{found}\n") } else { table(&found) };
    print(&text).map_err(ListenerFault::Show)
}

fn table(found: &Value) -> String {
    let all = found.as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return "there is no shared listener that you may see\n".to_owned();
    }
    let columns = ["listening on", "#uid", "rule", "#workers", "#open", "#accepted", "#taken back"];
    let mut table = Table::new(&columns);
    for listener in all {
        let workers = list(listener, "workers");
        let open = workers.iter().filter_map(|worker| worker["connections"].as_u64()).sum::<u64>();
        table.row([
            cell(listener, "address"),
            cell(listener, "uid"),
            cell(listener, "rule"),
            workers.len().to_string(),
            open.to_string(),
            cell(listener, "accepted"),
            cell(listener, "taken_back"),
        ]);
    }
    table.render()
}

fn inspect(address: SocketAddr, format: &Format) -> Result<(), ListenerFault> {
    let found = listeners(&format.place)?;
    let wanted = NetAddress::new(address).to_string();
    let is_it = |listener: &&Value| listener["address"].as_str() == Some(&wanted);
    let all = found.as_array().map_or(&[][..], Vec::as_slice);
    let listener = all.iter().find(is_it).ok_or(ListenerFault::NotShared(address))?;
    let text = if format.json { format!("{listener}\n") } else { workers_text(listener) };
    print(&text).map_err(ListenerFault::Show)
}

fn workers_text(listener: &Value) -> String {
    let columns =
        ["worker", "#place", "#pid", "state", "#open", "#given", "#untaken", "#passed over"];
    let mut table = Table::new(&columns);
    let workers = list(listener, "workers");
    for worker in workers {
        let pid = worker["pids"].get(0).map_or_else(|| "-".to_owned(), Value::to_string);
        let open = cell(worker, "connections");
        let is_doubted = worker["believed"].as_bool() == Some(false);
        table.row([
            cell(worker, "id"),
            cell(worker, "place"),
            pid,
            cell(worker, "state"),
            if is_doubted { format!("{open}, by the kernel's count") } else { open },
            cell(worker, "given"),
            cell(worker, "untaken"),
            cell(worker, "passed_over"),
        ]);
    }
    let counts = ["accepted", "given", "taken_back", "silent", "unanswered", "garbage", "held"];
    let counts = counts.map(|name| format!("{} {}", cell(listener, name), name.replace('_', " ")));
    format!(
        "{}, rule {}: {}\n{}",
        cell(listener, "address"),
        cell(listener, "rule"),
        counts.join(", "),
        table.render()
    )
}

fn run_plugin(arguments: &PluginArguments, program: &[OsString]) -> ExitCode {
    match begin_plugin(arguments, program) {
        Ok(mut child) => match child.wait() {
            Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
            Err(error) => end(Err(ListenerFault::Plugin(error))),
        },
        Err(error) => end(Err(error)),
    }
}

/// The plug-in runs as a child of this command, with the rights of whoever gave it, and the control
/// plane gets the other end of its standard input.
fn begin_plugin(
    arguments: &PluginArguments,
    program: &[OsString],
) -> Result<std::process::Child, ListenerFault> {
    let failed = |error: std::io::Error| ListenerFault::Plugin(error);
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (asking, asked): (OwnedFd, OwnedFd) = pair.map_err(|errno| failed(errno.into()))?;
    let Some((name, rest)) = program.split_first() else {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    };
    let mut command = std::process::Command::new(name);
    let child = command.args(rest).stdin(Stdio::from(asked)).spawn().map_err(failed)?;
    drop(command);
    let address = NetAddress::new(arguments.address);
    let rule = Rule::parse("plugin").map(|rule| arguments.peek.of(rule));
    if let Some(rule) = rule {
        tell(&arguments.place, ListenerRequest::SetRule { address, rule }, &[])?;
    }
    let fds = [asking.as_raw_fd()];
    tell(&arguments.place, ListenerRequest::Plugin { address }, &fds)?;
    Ok(child)
}
