//! `heliostat log`: entries of logs and queues, also of those that a program is writing.
//!
//! Read beside the writer, as any program may do it, through `heliostat-stub-log`. Damage is an error
//! with its position, and ends the command: nothing is passed over.

use std::fmt;
use std::io::{BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use heliostat_stub_log::{Entry, LogError, LogReader, OpenError, Place, Position};
use serde_json::{json, Value};

use crate::args::log::{LogArguments, LogCatArguments, LogCommand};
use crate::client::open_session;
use crate::show::{print, ShowError};
use crate::table::Table;

/// Bytes of a payload that a line for people shows.
const SHOWN_BYTES: usize = 120;

/// Why it was not done.
#[derive(Debug)]
enum LogFault {
    /// The log cannot be opened.
    Open(OpenError),
    /// It cannot be read on.
    Log(String, LogError),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Log(log, error) => write!(f, "{log}: {error}"),
            Self::Show(error) => error.fmt(f),
        }
    }
}

/// Does what the command line says.
pub fn run(command: &LogCommand) -> ExitCode {
    let done = match command {
        LogCommand::Cat(arguments) => cat(arguments),
        LogCommand::Info(arguments) => info(arguments),
        LogCommand::Verify(arguments) => verify(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(which: &LogArguments) -> Result<LogReader, LogFault> {
    let place = Place::from(which.log.as_str());
    if matches!(place, Place::Area(_)) {
        open_session(&which.format.place).map_err(|error| LogFault::Show(error.into()))?;
    }
    LogReader::open(place).map_err(LogFault::Open)
}

/// What went wrong with the log that was asked for.
fn of(which: &LogArguments) -> impl Fn(LogError) -> LogFault + '_ {
    |error| LogFault::Log(which.log.clone(), error)
}

fn cat(arguments: &LogCatArguments) -> Result<(), LogFault> {
    let which = &arguments.which;
    let mut reader = open(which)?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 {
        let next = match reader.read() {
            // What was read before it is shown before it is told.
            Err(error) => {
                let _ = output.flush();
                return Err(of(which)(error));
            }
            Ok(next) => next,
        };
        let Some(entry) = next else {
            if output.flush().is_err() || !arguments.follow {
                break;
            }
            reader.wait(None).map_err(of(which))?;
            continue;
        };
        if entry.position.at < arguments.from {
            continue;
        }
        left -= 1;
        match write_entry(&mut output, arguments, &entry) {
            // A reader that has gone (`| head`) is no failure.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|error| LogFault::Show(ShowError::Output(error)))?,
        }
    }
    // As above: who reads no more wants no more.
    let _ = output.flush();
    Ok(())
}

fn write_entry(
    output: &mut impl Write,
    arguments: &LogCatArguments,
    entry: &Entry,
) -> std::io::Result<()> {
    if arguments.raw {
        return output.write_all(&entry.payload);
    }
    if arguments.which.format.json {
        return writeln!(output, "{}", entry_json(entry));
    }
    let Position { at, sequence } = entry.position;
    let shown = &entry.payload[..entry.payload.len().min(SHOWN_BYTES)];
    let more = if shown.len() < entry.payload.len() { "..." } else { "" };
    writeln!(output, "{at} {sequence} {} {}{more}", entry.payload.len(), shown.escape_ascii())
}

fn entry_json(entry: &Entry) -> Value {
    let mut told = json!({
        "at": entry.position.at,
        "sequence": entry.position.sequence,
        "next": entry.next.at,
        "bytes": entry.payload.len(),
    });
    let (name, payload) = match std::str::from_utf8(&entry.payload) {
        Ok(text) => ("text", text.to_owned()),
        Err(_) => ("hex", hex(&entry.payload)),
    };
    told[name] = Value::String(payload);
    told
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn info(which: &LogArguments) -> Result<(), LogFault> {
    let reader = open(which)?;
    let header = reader.header();
    let facts = json!({
        "log": which.log,
        "identity": hex(&header.identity),
        "begin": position_json(header.begin),
        "known_end": position_json(header.end),
        "room_bytes": header.data_bytes,
        "used_bytes": header.end.at - header.begin.at,
        "payload_bytes_max": header.longest,
        "window_bytes": header.window_bytes,
        "sector_bytes": header.sector_bytes,
        "openings": header.generation,
    });
    show(which, &facts)
}

fn position_json(position: Position) -> Value {
    json!({ "at": position.at, "sequence": position.sequence })
}

fn verify(which: &LogArguments) -> Result<(), LogFault> {
    let mut reader = open(which)?;
    let begin = reader.position();
    let (mut entries, mut bytes) = (0u64, 0u64);
    while let Some(entry) = reader.read().map_err(of(which))? {
        entries += 1;
        bytes += entry.payload.len() as u64;
    }
    reader.check_end().map_err(of(which))?;
    let facts = json!({
        "log": which.log,
        "entries": entries,
        "payload_bytes": bytes,
        "begin": position_json(begin),
        "end": position_json(reader.position()),
        "damaged": false,
    });
    show(which, &facts)
}

/// Shows facts as JSON, or a line for each.
fn show(which: &LogArguments, facts: &Value) -> Result<(), LogFault> {
    let text = match (which.format.json, facts.as_object()) {
        (false, Some(facts)) => lines(facts),
        _ => format!("{facts}\n"),
    };
    print(&text).map_err(LogFault::Show)
}

fn lines(facts: &serde_json::Map<String, Value>) -> String {
    let mut table = Table::new(&["what", "is"]);
    for (name, value) in facts {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Object(position) => {
                format!("{} (entry {})", position["at"], position["sequence"])
            }
            value => value.to_string(),
        };
        table.row([name.replace('_', " "), text]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_no_text_is_told_in_hex() {
        let position = Position { at: 64, sequence: 2 };
        let next = Position { at: 104, sequence: 3 };
        let entry = |payload: &[u8]| Entry { position, next, payload: payload.to_vec() };
        let wanted = json!({ "at": 64, "sequence": 2, "next": 104, "bytes": 2, "text": "hi" });
        assert_eq!(entry_json(&entry(b"hi")), wanted);
        let wanted = json!({ "at": 64, "sequence": 2, "next": 104, "bytes": 2, "hex": "ff00" });
        assert_eq!(entry_json(&entry(b"\xff\0")), wanted);
    }
}
