//! `heliostat ls`, `cat` and `cp`: the names of a node, where nothing is mounted.
//!
//! The same names by the same code as below a mount (`heliostat-names`), and so the same bytes and rights.

use std::fmt;
use std::fs::File as LocalFile;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use heliostat_names::{is_name, Access, Bytes, File, Found, NameFault, NamePath, Names};
use serde_json::{json, Value};

use crate::args::names::{CatArguments, CpArguments, LsArguments};
use crate::client::{open_session, ClientError};
use crate::show::{print, ShowError};
use crate::table::{bytes, Table};

/// Bytes that are moved at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Standard input, where a file is expected.
const STANDARD_INPUT: &str = "-";

/// Why it was not done.
#[derive(Debug)]
pub enum NamesFault {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// A name says no.
    Name(String, NameFault),
    /// A file of this machine does.
    File(String, io::Error),
    /// Neither is a name.
    NoName,
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for NamesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Name(name, error) => write!(f, "{name}: {error}"),
            Self::File(path, error) => write!(f, "{path}: {error}"),
            Self::NoName => {
                f.write_str("neither is a name, as /memory/kv is one; cp(1) copies files")
            }
            Self::Show(error) => error.fmt(f),
        }
    }
}

/// `heliostat ls`.
pub fn ls(arguments: &LsArguments) -> ExitCode {
    ended(list(arguments))
}

/// `heliostat cat`.
pub fn cat(arguments: &CatArguments) -> ExitCode {
    ended(write_out(arguments))
}

/// `heliostat cp`.
pub fn cp(arguments: &CpArguments) -> ExitCode {
    ended(copy(arguments))
}

fn ended(done: Result<(), NamesFault>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn named(name: &str) -> impl Fn(NameFault) -> NamesFault + '_ {
    move |error| NamesFault::Name(name.to_owned(), error)
}

fn list(arguments: &LsArguments) -> Result<(), NamesFault> {
    open_session(&arguments.format.place).map_err(NamesFault::Client)?;
    let names = Names::new();
    let mut rows = Vec::new();
    for name in &arguments.names {
        rows.extend(rows_of(&names, name, arguments).map_err(named(name))?);
    }
    let text = match (arguments.format.json, arguments.long) {
        (true, _) => format!("{}\n", Value::Array(rows.iter().map(Row::json).collect())),
        (false, true) => table(&rows),
        (false, false) => rows.iter().map(|row| row.shown() + "\n").collect(),
    };
    print(&text).map_err(NamesFault::Show)
}

/// One name that is listed.
struct Row {
    name: String,
    /// Looked at only where that is shown; none for a folder, and for what has gone meanwhile.
    file: Option<Arc<dyn File>>,
    is_folder: bool,
}

impl Row {
    fn shown(&self) -> String {
        if self.is_folder {
            format!("{}/", self.name)
        } else {
            self.name.clone()
        }
    }

    fn json(&self) -> Value {
        let mut told = json!({ "name": self.name, "folder": self.is_folder });
        if let Some(facts) = self.file.as_ref().map(|file| file.facts()) {
            told["bytes"] = json!(facts.bytes);
            told["uid"] = json!(facts.user);
            told["read"] = json!(facts.is_readable);
            told["write"] = json!(facts.is_writable);
        }
        told
    }
}

fn rows_of(names: &Names, name: &str, arguments: &LsArguments) -> Result<Vec<Row>, NameFault> {
    let path = NamePath::parse(name)?;
    if let Found::File(file) = names.look(&path)? {
        return Ok(vec![Row { name: path.to_string(), file: Some(file), is_folder: false }]);
    }
    let wants_files = arguments.long || arguments.format.json;
    let row = |entry: heliostat_names::Entry| {
        let found = path.with(&entry.name).and_then(|path| match wants_files {
            true => names.look(&path).map(Some),
            false => Ok(None),
        });
        let file = match found {
            Ok(Some(Found::File(file))) => Some(file),
            // It may have gone since it was listed, or be nobody's to look at.
            _ => None,
        };
        Row { name: entry.name, file, is_folder: entry.is_folder }
    };
    Ok(names.list(&path)?.into_iter().map(row).collect())
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new(&["may", "#uid", "#size", "name"]);
    for row in rows {
        let facts = row.file.as_ref().map(|file| file.facts());
        let flag = |is, letter| if is { letter } else { "-" };
        let may = facts.as_ref().map_or("--".to_owned(), |facts| {
            format!("{}{}", flag(facts.is_readable, "r"), flag(facts.is_writable, "w"))
        });
        let user = facts.as_ref().and_then(|facts| facts.user);
        let user = user.map_or("-".to_owned(), |user| user.to_string());
        let size = facts.as_ref().map_or("-".to_owned(), |facts| bytes(facts.bytes));
        table.row([may, user, size, row.shown()]);
    }
    table.render()
}

fn write_out(arguments: &CatArguments) -> Result<(), NamesFault> {
    open_session(&arguments.place).map_err(NamesFault::Client)?;
    let names = Names::new();
    let mut output = io::stdout().lock();
    for name in &arguments.names {
        match pour(&*open(&names, name, Access::Read)?, name, &mut output) {
            // A reader that has gone (`| head`) is no failure.
            Err(NamesFault::File(_, error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(())
            }
            done => done?,
        }
    }
    Ok(())
}

/// Opens a name; once more where what it stood for is gone since.
fn open(names: &Names, name: &str, access: Access) -> Result<Box<dyn Bytes>, NamesFault> {
    let once = || match names.look(&NamePath::parse(name)?)? {
        Found::Folder => Err(NameFault::Folder),
        Found::File(file) => file.open(access),
    };
    match once() {
        Err(NameFault::Stale) => once(),
        opened => opened,
    }
    .map_err(named(name))
}

/// Writes all bytes of an open name.
fn pour(from: &dyn Bytes, name: &str, to: &mut impl Write) -> Result<(), NamesFault> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let count = from.read_at(offset, &mut chunk).map_err(named(name))?;
        if count == 0 {
            break;
        }
        let written = to.write_all(&chunk[..count]);
        written.map_err(|error| NamesFault::File("output".to_owned(), error))?;
        offset += count as u64;
    }
    to.flush().map_err(|error| NamesFault::File("output".to_owned(), error))
}

fn copy(arguments: &CpArguments) -> Result<(), NamesFault> {
    let CpArguments { from, to, place } = arguments;
    if !is_name(from) && !is_name(to) {
        return Err(NamesFault::NoName);
    }
    open_session(place).map_err(NamesFault::Client)?;
    let names = Names::new();
    if is_name(to) {
        let mut source = source(&names, from)?;
        let target = open(&names, to, Access::Write)?;
        return fill(&mut source, from, &*target, to);
    }
    let source = open(&names, from, Access::Read)?;
    let path = target_path(to, from);
    let shown = path.display().to_string();
    let mut target = LocalFile::create(&path).map_err(|error| NamesFault::File(shown, error))?;
    pour(&*source, from, &mut target)
}

/// Where a copy goes: into a folder under the last part of its name.
fn target_path(to: &str, from: &str) -> PathBuf {
    let to = Path::new(to);
    match from.rsplit('/').next() {
        Some(last) if to.is_dir() => to.join(last),
        _ => to.to_owned(),
    }
}

/// What is read: a name, standard input, or a file.
fn source(names: &Names, from: &str) -> Result<Box<dyn Read>, NamesFault> {
    if is_name(from) {
        let bytes = open(names, from, Access::Read)?;
        return Ok(Box::new(Reading { bytes, offset: 0 }));
    }
    if from == STANDARD_INPUT {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = LocalFile::open(from).map_err(|error| NamesFault::File(from.to_owned(), error))?;
    Ok(Box::new(opened))
}

/// Writes all that is read into an open name, from its first byte on.
fn fill(from: &mut dyn Read, name: &str, to: &dyn Bytes, at: &str) -> Result<(), NamesFault> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = from.read(&mut chunk);
        let count = read.map_err(|error| NamesFault::File(name.to_owned(), error))?;
        if count == 0 {
            return to.synchronize().map_err(named(at));
        }
        let mut rest = &chunk[..count];
        while !rest.is_empty() {
            let written = to.write_at(offset, rest).map_err(named(at))?;
            offset += written as u64;
            rest = &rest[written..];
        }
    }
}

/// An open name, read from its first byte to its last.
struct Reading {
    bytes: Box<dyn Bytes>,
    offset: u64,
}

impl Read for Reading {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read_at(self.offset, into).map_err(io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}
