//! Answers of the control plane for people: status, explain, metrics.

use std::fmt;
use std::io::Write;

use heliostat_abi::code::Code;
use heliostat_abi::record::Request;
use heliostat_client::ControlError;
use serde_json::Value;

use crate::args::{ControlOwner, ControlPlace, Look};
use crate::client::{ask, ClientError};
use crate::delegated;
use crate::explain::Cause;
use crate::place::{meant, surroundings};
use crate::table::{bytes, cell, list, Table};

/// Why nothing was shown.
#[derive(Debug)]
pub enum ShowError {
    /// There is no answer.
    Client(ClientError),
    /// The answer is no JSON.
    Json(serde_json::Error),
    /// The process that was asked about has no session, and why.
    NoSession {
        /// The process.
        pid: u32,
        /// Why.
        why: String,
    },
    /// There is no control plane to look at.
    NoPlace(String),
    /// Standard output takes no more.
    Output(std::io::Error),
}

impl fmt::Display for ShowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Json(error) => write!(f, "the answer is no JSON: {error}"),
            Self::NoSession { pid, why } => {
                // It may hold a path or a name that a program has chosen.
                let why = why.replace(char::is_control, "?");
                write!(f, "process {pid} has no session here: {why}")
            }
            Self::NoPlace(why) => f.write_str(why),
            Self::Output(error) => write!(f, "cannot print: {error}"),
        }
    }
}

impl std::error::Error for ShowError {}

impl From<ClientError> for ShowError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// `heliostat status`.
pub fn status(look: &Look) -> Result<(), ShowError> {
    let here = meant(&look.whose).map_err(ShowError::NoPlace)?;
    let text = ask(&here, &Request::Status)?;
    if look.json {
        return print(&format!("{text}\n"));
    }
    let status: Value = serde_json::from_str(&text).map_err(ShowError::Json)?;
    print(&status_text(&status))
}

/// The status as people read it.
pub fn status_text(status: &Value) -> String {
    let mut sessions = Table::new(&[
        "#pid",
        "#uid",
        "program",
        "#ports",
        "#channels",
        "#shared",
        "#open",
        "#direct",
        "#native",
        "#files",
    ]);
    for session in list(status, "sessions") {
        let counter = |name| cell(&session["counters"], name);
        sessions.row([
            cell(session, "pid"),
            cell(session, "uid"),
            cell(session, "program"),
            cell(session, "ports"),
            cell(session, "channels"),
            bytes(session["shared_bytes"].as_u64().unwrap_or(0)),
            open_now(session),
            counter("direct_streams"),
            counter("native_connections"),
            cell(session, "leases"),
        ]);
    }
    let mut ports = Table::new(&["listening on", "#uid", "#sessions", "#channels"]);
    for port in list(status, "ports") {
        let listeners = cell(port, "session_count");
        ports.row([cell(port, "address"), cell(port, "uid"), listeners, cell(port, "channels")]);
    }
    format!(
        "heliostatd {} (process {}), up {} s, {} sessions, {} addresses, {} channels\n\n{}\n{}{}",
        cell(status, "version"),
        cell(status, "pid"),
        cell(status, "uptime_s"),
        list(status, "sessions").len(),
        list(status, "ports").len(),
        cell(status, "channels"),
        sessions.render(),
        ports.render(),
        delegated::status_text(status),
    )
}

/// Connections that a session has now, as its report lists them; direct and native were counted where
/// they began, which a forked child that serves them did not see.
fn open_now(session: &Value) -> String {
    let listed = &session["connections"];
    let count = |path: &str| listed[path].as_u64();
    let both = count("direct").zip(count("native"));
    both.map_or_else(|| "?".to_owned(), |(direct, native)| (direct + native).to_string())
}

/// `heliostat metrics`.
pub fn metrics(place: &ControlPlace) -> Result<(), ShowError> {
    print(&ask(&surroundings(place), &Request::Metrics)?)
}

/// Sends a request whose answer is "done".
pub fn tell(whose: &ControlOwner, request: &Request) -> Result<(), ShowError> {
    let here = meant(whose).map_err(ShowError::NoPlace)?;
    match (ask(&here, request), request) {
        (
            Err(ClientError::Control(ControlError::Refused { code: Code::NotFound, .. })),
            Request::Revoke { pid },
        ) => {
            let why = Cause::of(*pid, &here.socket_path()).to_string();
            Err(ShowError::NoSession { pid: *pid, why })
        }
        (answer, _) => answer.map(|_| ()).map_err(ShowError::Client),
    }
}

/// Prints; a reader that has gone (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), ShowError> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(ShowError::Output(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_without_anything_still_prints() {
        assert!(status_text(&json!({})).starts_with("heliostatd"));
    }
}
