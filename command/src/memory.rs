//! `heliostat memory`: memory regions, from the command line.
//!
//! Everything is asked and read as any program does it, through `heliostat-stub-memory`.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Request;
use heliostat_stub_memory::{Listed, Memory, MemoryError, Region, Rights, OWN_USER};
use serde_json::{json, Value};

use crate::args::memory::{MemoryCommand, MemoryListArguments, MemoryRegionArguments};
use crate::args::ControlPlace;
use crate::client::{ask, open_session, ClientError};
use crate::place::surroundings;
use crate::show::{print, ShowError};
use crate::table::{bytes, Table};

/// What stands before a region's identity, which names never have.
const IDENTITY: char = '@';
/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Why it was not done.
#[derive(Debug)]
enum RegionFault {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// The control plane says no, or the region is gone.
    Memory(MemoryError),
    /// No region that may be seen has that name or identity.
    Unknown(String),
    /// The text is no identity.
    Identity(String),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for RegionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Unknown(region) => write!(f, "no region {region} that you may see"),
            Self::Identity(found) => write!(f, "{found:?} is no identity as {IDENTITY}7.1"),
            Self::Show(error) => error.fmt(f),
        }
    }
}

impl From<MemoryError> for RegionFault {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

/// Does what the command line says.
pub fn run(command: &MemoryCommand) -> ExitCode {
    let done = match command {
        MemoryCommand::List(arguments) => list(arguments),
        MemoryCommand::Inspect { region, json } => inspect(region, *json),
        MemoryCommand::Free(arguments) => free(arguments),
        MemoryCommand::Move { region, to } => relocate(region, *to),
        MemoryCommand::Cat(arguments) => cat(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(place: &ControlPlace, node: Option<u64>) -> Result<Memory, RegionFault> {
    open_session(place).map_err(RegionFault::Client)?;
    let memory = Memory::open()?;
    Ok(node.map_or(memory.clone(), |node| memory.on(node)))
}

fn list(arguments: &MemoryListArguments) -> Result<(), RegionFault> {
    let memory = open(&arguments.format.place, arguments.node)?;
    let owner = arguments.owner.unwrap_or(OWN_USER);
    let regions = memory.list_of(owner, &arguments.beginning)?;
    let replicas = match arguments.node {
        None => replicas(arguments)?,
        // Its own command line shows them.
        Some(_) => Vec::new(),
    };
    let text = if arguments.format.json {
        format!("{}\n", Value::Array(regions.iter().map(region_json).chain(replicas).collect()))
    } else {
        table(&regions) + &replica_table(&replicas)
    };
    print(&text).map_err(RegionFault::Show)
}

/// The regions on several nodes of which this one has a replica.
fn replicas(arguments: &MemoryListArguments) -> Result<Vec<Value>, RegionFault> {
    let here = surroundings(&arguments.format.place);
    let text = ask(&here, &Request::Status).map_err(RegionFault::Client)?;
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut found = Vec::new();
    for one in status["replicas"].as_array().into_iter().flatten() {
        let Some((uid, name)) = one["name"].as_str().and_then(|it| it.split_once('/')) else {
            continue;
        };
        let uid: u32 = uid.parse().unwrap_or(OWN_USER);
        let is_meant = arguments.owner.is_none_or(|owner| owner == uid);
        if is_meant && name.starts_with(&arguments.beginning) {
            let mut one = one.clone();
            (one["name"], one["uid"]) = (json!(name), json!(uid));
            found.push(one);
        }
    }
    Ok(found)
}

fn inspect(arguments: &MemoryRegionArguments, is_json: bool) -> Result<(), RegionFault> {
    let memory = open(&arguments.place, arguments.node)?;
    let listed = find(&memory, arguments)?;
    let path = match memory.map_region(listed.region, Rights::READ) {
        Ok(region) => match region.node() {
            Some(node) => format!("delegated, to node {node}"),
            None if region.is_direct() => "direct".to_owned(),
            None => "delegated".to_owned(),
        },
        Err(error) => format!("none: {error}"),
    };
    let mut told = region_json(&listed);
    if let Some(told) = told.as_object_mut() {
        told.insert("path".into(), json!(path));
    }
    let text = if is_json { format!("{told}\n") } else { lines(&told) };
    print(&text).map_err(RegionFault::Show)
}

fn free(arguments: &MemoryRegionArguments) -> Result<(), RegionFault> {
    let memory = open(&arguments.place, arguments.node)?;
    Ok(mapped(&memory, arguments, Rights::MANAGE)?.free()?)
}

fn relocate(arguments: &MemoryRegionArguments, to: Option<u64>) -> Result<(), RegionFault> {
    let memory = open(&arguments.place, arguments.node)?;
    let region = mapped(&memory, arguments, Rights::MANAGE)?;
    Ok(to.map_or_else(|| region.relocate(), |node| region.move_to(node))?)
}

fn cat(arguments: &MemoryRegionArguments) -> Result<(), RegionFault> {
    let memory = open(&arguments.place, arguments.node)?;
    let region = mapped(&memory, arguments, Rights::READ)?;
    let (size, mut chunk) = (region.size()?, vec![0; CHUNK_BYTES]);
    let mut done = 0;
    while done < size {
        let part = (size - done).min(CHUNK_BYTES as u64) as usize;
        region.read(done, &mut chunk[..part])?;
        match std::io::stdout().write_all(&chunk[..part]) {
            // A reader that has gone (`| head`) is no failure.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(RegionFault::Show(ShowError::Output(error))),
            Ok(()) => done += part as u64,
        }
    }
    Ok(())
}

/// A handle on the region that is meant.
fn mapped(
    memory: &Memory,
    arguments: &MemoryRegionArguments,
    rights: Rights,
) -> Result<Region, RegionFault> {
    if let Some(id) = identity(&arguments.region)? {
        return Ok(memory.map_region(id, rights)?);
    }
    let owner = arguments.owner.unwrap_or(OWN_USER);
    Ok(memory.map_of(owner, &arguments.region, rights)?)
}

/// The region that is meant, as it is listed.
fn find(memory: &Memory, arguments: &MemoryRegionArguments) -> Result<Listed, RegionFault> {
    let own = rustix::process::geteuid().as_raw();
    let owner = arguments.owner.unwrap_or(own);
    let plain = arguments.region.strip_prefix("/memory/").unwrap_or(&arguments.region);
    let found = match identity(plain)? {
        Some(id) => memory.list("")?.into_iter().find(|listed| listed.region == id),
        None => {
            let is_it = |it: &Listed| it.name.as_ref().is_some_and(|name| name.as_str() == plain);
            memory.list_of(owner, plain)?.into_iter().find(is_it)
        }
    };
    found.ok_or_else(|| RegionFault::Unknown(arguments.region.clone()))
}

/// The identity that a text is, if it is no name.
fn identity(text: &str) -> Result<Option<ObjectId>, RegionFault> {
    let Some(digits) = text.strip_prefix(IDENTITY) else { return Ok(None) };
    let parts = digits.split_once('.');
    let parsed = parts.and_then(|(index, generation)| {
        Some(ObjectId { index: index.parse().ok()?, generation: generation.parse().ok()? })
    });
    parsed.map(Some).ok_or_else(|| RegionFault::Identity(text.to_owned()))
}

fn region_json(region: &Listed) -> Value {
    json!({
        "id": format!("{IDENTITY}{}", region.region),
        "name": region.name.as_ref().map(|name| name.as_str()),
        "uid": region.user,
        "bytes": region.bytes,
        "handles": region.handles,
        "lasting": region.lasting,
        "age_s": region.age_s,
    })
}

/// A line for each field.
fn lines(told: &Value) -> String {
    let all = told.as_object().into_iter().flatten();
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    all.map(|(name, value)| format!("{name:<8} {}\n", plain(value))).collect()
}

/// Where regions on several nodes lie; nothing where there are none.
fn replica_table(replicas: &[Value]) -> String {
    if replicas.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["replicated", "#uid", "#size", "#primary", "backups", "#epoch"]);
    for one in replicas {
        let backups = one["backups"].as_array().into_iter().flatten();
        let backups: Vec<String> = backups.map(Value::to_string).collect();
        table.row([
            one["name"].as_str().unwrap_or("-").to_owned(),
            one["uid"].to_string(),
            bytes(one["bytes"].as_u64().unwrap_or(0)),
            one["primary"].to_string(),
            backups.join(", "),
            one["epoch"].to_string(),
        ]);
    }
    table.render()
}

fn table(regions: &[Listed]) -> String {
    if regions.is_empty() {
        return "there is no region that you may see\n".to_owned();
    }
    let mut table = Table::new(&["id", "name", "#uid", "#size", "#handles", "lives", "#age"]);
    for region in regions {
        let name = region.name.as_ref().map_or("-", |name| name.as_str()).to_owned();
        let lives = if region.lasting { "for good" } else { "with its managers" };
        table.row([
            format!("{IDENTITY}{}", region.region),
            name,
            region.user.to_string(),
            bytes(region.bytes),
            region.handles.to_string(),
            lives.to_owned(),
            format!("{} s", region.age_s),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use heliostat_abi::memory::MemoryName;

    use super::*;

    #[test]
    fn a_region_is_meant_by_its_name_or_its_identity() {
        assert!(matches!(identity("kv/a"), Ok(None)));
        let id = ObjectId { index: 7, generation: 2 };
        assert!(matches!(identity("@7.2"), Ok(Some(found)) if found == id));
        assert!(matches!(identity("@7"), Err(RegionFault::Identity(_))));
    }

    #[test]
    fn the_table_tells_how_long_a_region_lives() {
        let region = ObjectId { index: 7, generation: 2 };
        let name = Some(MemoryName::parse("kv/a").unwrap());
        let (bytes, user, handles, age_s) = (4096, 1000, 2, 61);
        let named = Listed { region, bytes, user, handles, lasting: true, age_s, name };
        let other = Listed { lasting: false, name: None, ..named.clone() };
        let wanted = "id    name   uid     size  handles  lives               age\n\
                      @7.2  kv/a  1000  4.0 KiB        2  for good           61 s\n\
                      @7.2  -     1000  4.0 KiB        2  with its managers  61 s\n";
        assert_eq!(table(&[named, other]), wanted);
    }
}
