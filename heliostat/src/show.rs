//! Answers of the control plane for people: status, explain, metrics.

use std::fmt;
use std::io::Write;

use heliostat_abi::code::{Native, Unmapped};
use heliostat_abi::record::Request;
use serde_json::{json, Value};

use crate::args::{Format, Place};
use crate::client::{ask, ClientError};
use crate::delegated;
use crate::place::surroundings;
use crate::sealing::private_folder;
use crate::table::{bytes, cell, list, Table};

/// Why nothing was shown.
#[derive(Debug)]
pub enum ShowError {
    /// There is no answer.
    Client(ClientError),
    /// The answer is no JSON.
    Json(serde_json::Error),
    /// The process that was asked about is not under Heliostat.
    NoSuchProcess(u32),
    /// Standard output takes no more.
    Output(std::io::Error),
}

impl fmt::Display for ShowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Json(error) => write!(f, "the answer is no JSON: {error}"),
            Self::NoSuchProcess(pid) => write!(
                f,
                "process {pid} has no session here: it was not started with `heliostat run`, \
                 cannot be covered, or has ended"
            ),
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
pub fn status(format: &Format) -> Result<(), ShowError> {
    let text = ask(&surroundings(&format.place), &Request::Status)?;
    if format.json {
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
            counter("direct_streams"),
            counter("native_connections"),
            cell(session, "leases"),
        ]);
    }
    let mut ports = Table::new(&["listening on", "#uid", "#sessions", "#channels"]);
    for port in list(status, "ports") {
        let listeners = list(port, "sessions").len().to_string();
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

/// `heliostat explain`.
pub fn explain(pid: u32, format: &Format) -> Result<(), ShowError> {
    use heliostat_abi::code::Code;
    let refused = refused_of(pid, &format.place);
    let answer = ask(&surroundings(&format.place), &Request::Explain { pid });
    let mut explained: Value = match (answer, &refused) {
        (Ok(text), _) => serde_json::from_str(&text).map_err(ShowError::Json)?,
        // Sealed without a stub that speaks to the control plane.
        (Err(_), Some(_)) => json!({ "pid": pid, "program": "sealed" }),
        (Err(ClientError::Refused { code: Code::NotFound, .. }), None) => {
            return Err(ShowError::NoSuchProcess(pid));
        }
        (Err(error), None) => return Err(ShowError::Client(error)),
    };
    if let Some(refused) = refused {
        explained["refused"] = json!(refused.lines().collect::<Vec<_>>());
    }
    match format.json {
        true => print(&format!("{explained}\n")),
        false => print(&explain_text(&explained)),
    }
}

/// What was refused to a sealed process so far, a line for each kind; none for one that is not.
fn refused_of(pid: u32, place: &Place) -> Option<String> {
    let folder = private_folder(&surroundings(place).socket_path());
    heliostat_supervisor::report::of_process(&folder, i32::try_from(pid).ok()?)
}

/// What a sealed program asked for in vain.
fn refused_text(explained: &Value) -> String {
    let Some(refused) = explained["refused"].as_array() else { return String::new() };
    if refused.is_empty() {
        return "sealed; nothing was refused\n".to_owned();
    }
    let line = |refused: &Value| {
        let clean = refused.as_str().unwrap_or_default().replace(char::is_control, "?");
        format!("refused, being sealed: {clean}\n")
    };
    refused.iter().map(line).collect()
}

fn explain_text(explained: &Value) -> String {
    let columns = ["#fd", "role", "local", "peer", "path", "#received", "#sent", "reason"];
    let mut table = Table::new(&columns);
    let connections = list(explained, "connections");
    for connection in connections {
        let accepted = connection["accepted"].as_bool().unwrap_or(false);
        table.row([
            cell(connection, "fd"),
            if accepted { "accepted" } else { "connected" }.to_owned(),
            cell(connection, "local"),
            cell(connection, "peer"),
            cell(connection, "path"),
            bytes(connection["received"].as_u64().unwrap_or(0)),
            bytes(connection["sent"].as_u64().unwrap_or(0)),
            cell(connection, "reason_text"),
        ]);
    }
    let mut text = format!("{} ({})\n\n", cell(explained, "program"), cell(explained, "pid"));
    match connections.is_empty() {
        true => text.push_str("no connections now\n"),
        false => text.push_str(&table.render()),
    }
    let counted = explained["counters"].as_object().into_iter().flatten();
    let counted = counted.filter(|(_, value)| value.as_u64().unwrap_or(0) > 0);
    let counted: Vec<_> =
        counted.map(|(name, value)| format!("{}: {value}", name.replace('_', " "))).collect();
    if !counted.is_empty() {
        text.push_str(&format!("\nsince its start: {}\n", counted.join(", ")));
    }
    text.push_str(&reasons_text("native", &explained["reasons"], |name| {
        Native::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text())
    }));
    text.push_str(&files_text(explained));
    text.push_str(&delegated::explain_text(explained));
    text.push_str(&refused_text(explained));
    text
}

/// Which files are under a lease now, and why the reads of others, closed ones included, stayed or
/// became the kernel's.
fn files_text(explained: &Value) -> String {
    let files = list(explained, "files").iter().filter_map(Value::as_str);
    let mut text: String = files.map(|path| format!("file under a lease: {path:?}\n")).collect();
    text.push_str(&reasons_text("file read by the kernel", &explained["file_reasons"], |name| {
        Unmapped::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text())
    }));
    text
}

/// Why something, closed ones included, was or went native: one line for each reason.
fn reasons_text(
    what: &str,
    reasons: &Value,
    words: impl Fn(&str) -> Option<&'static str>,
) -> String {
    let counted = reasons.as_object().into_iter().flatten();
    let line = |(name, count): (&String, &Value)| {
        format!("{what} {count} times: {}\n", words(name).unwrap_or("an unknown reason"))
    };
    counted.map(line).collect()
}

/// `heliostat metrics`.
pub fn metrics(place: &Place) -> Result<(), ShowError> {
    print(&ask(&surroundings(place), &Request::Metrics)?)
}

/// Sends a request whose answer is "done".
pub fn tell(place: &Place, request: &Request) -> Result<(), ShowError> {
    use heliostat_abi::code::Code;
    match (ask(&surroundings(place), request), request) {
        (Err(ClientError::Refused { code: Code::NotFound, .. }), Request::Revoke { pid }) => {
            Err(ShowError::NoSuchProcess(*pid))
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

    #[test]
    fn an_explanation_shows_path_bytes_and_reason() {
        let explained = json!({
            "pid": 7, "program": "re\u{1b}dis", "counters": {"direct_streams": 1, "bells": 0},
            "connections": [{
                "fd": 5, "local": "127.0.0.1:9", "peer": "127.0.0.1:8", "path": "native",
                "reason": "NotLocal", "reason_text": "the other end is on another machine",
                "accepted": false, "received": 2048, "sent": 1,
            }],
        });
        let wanted = "redis (7)\n\n\
            fd  role       local        peer         path    received  sent  reason\n \
            5  connected  127.0.0.1:9  127.0.0.1:8  native   2.0 KiB   1 B  \
            the other end is on another machine\n\n\
            since its start: direct streams: 1\n";
        assert_eq!(explain_text(&explained), wanted);
    }

    #[test]
    fn refusals_of_a_sealed_program_are_explained() {
        let explained = json!({ "refused": ["connect: x\ny"] });
        assert_eq!(refused_text(&explained), "refused, being sealed: connect: x?y\n");
        assert_eq!(refused_text(&json!({ "refused": [] })), "sealed; nothing was refused\n");
        assert_eq!(refused_text(&json!({})), "");
    }

    #[test]
    fn files_are_explained_in_words() {
        let explained = json!({ "files": ["/a\nb"], "file_reasons": { "Written": 2 } });
        let wanted = "file under a lease: \"/a\\nb\"\n\
            file read by the kernel 2 times: somebody has it open for writing\n";
        assert_eq!(files_text(&explained), wanted);
    }

    #[test]
    fn a_status_without_anything_still_prints() {
        assert!(status_text(&json!({})).starts_with("heliostatd"));
    }
}
