//! `heliostat area`: areas of the store, from the command line.
//!
//! Everything is asked as any program does it, through `heliostat-stub-store`. A change is made by a
//! handle of the emulated way: who holds an area directly cannot shrink or delete it.

use std::fmt;
use std::process::ExitCode;

use heliostat_stub_store::{
    Area, AreaKind, AreaRights, ListedArea, Store, StoreError, Way, WayWanted, OWN_USER,
};
use serde_json::{json, Value};

use crate::args::store::{AreaArguments, AreaCommand, AreaRight, Kind};
use crate::args::ControlPlace;
use crate::client::{open_session, ClientError};
use crate::show::{print, ShowError};
use crate::table::{bytes, Table};

/// Why it was not done.
#[derive(Debug)]
enum AreaFault {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// The store says no.
    Store(StoreError),
    /// No area that may be seen has that name.
    Unknown(String),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for AreaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Unknown(name) => write!(f, "no area {name} that you may see"),
            Self::Show(error) => error.fmt(f),
        }
    }
}

impl From<StoreError> for AreaFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Does what the command line says.
pub fn run(command: &AreaCommand) -> ExitCode {
    match obey(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn obey(command: &AreaCommand) -> Result<(), AreaFault> {
    match command {
        AreaCommand::Create { name, size, kind, others, place } => {
            let store = open(place)?;
            let area = store.create(name, *size).kind(meant(*kind)).others(rights(others));
            area.way(WayWanted::Emulated).make()?;
        }
        AreaCommand::List { beginning, owner, format } => {
            let store = open(&format.place)?;
            let areas = store.list_of(owner.unwrap_or(OWN_USER), beginning)?;
            let text = match format.json {
                true => format!("{}\n", Value::Array(areas.iter().map(area_json).collect())),
                false => table(&areas),
            };
            print(&text).map_err(AreaFault::Show)?;
        }
        AreaCommand::Inspect { area, json } => inspect(area, *json)?,
        AreaCommand::Resize { area, size } => managed(area)?.resize(*size)?,
        AreaCommand::Appoint { area, others } => managed(area)?.appoint(rights(others))?,
        AreaCommand::Rate { area, bytes } => managed(area)?.set_rate(*bytes)?,
        AreaCommand::Delete(area) => managed(area)?.delete()?,
    }
    Ok(())
}

fn open(place: &ControlPlace) -> Result<Store, AreaFault> {
    open_session(place).map_err(AreaFault::Client)?;
    Ok(Store::connect()?)
}

/// An area, to change it.
fn managed(area: &AreaArguments) -> Result<Area, AreaFault> {
    let owner = area.owner.unwrap_or(OWN_USER);
    let way = WayWanted::Emulated;
    Ok(open(&area.place)?.open_of(owner, &area.name, AreaRights::MANAGE, way)?)
}

fn inspect(area: &AreaArguments, json: bool) -> Result<(), AreaFault> {
    let store = open(&area.place)?;
    let owner = area.owner.unwrap_or(OWN_USER);
    let name = area.name.strip_prefix("/store/").unwrap_or(&area.name);
    // Who may see several users' areas of one name says whose is meant; without that, his own.
    let own = rustix::process::geteuid().as_raw();
    let uid = if owner == OWN_USER { own } else { owner };
    let listed = store.list_of(uid, name)?;
    let found = listed.into_iter().find(|listed| listed.name.as_str() == name);
    let found = found.ok_or_else(|| AreaFault::Unknown(area.name.clone()))?;
    let way = store.open_of(uid, name, AreaRights::READ, WayWanted::Any).map(|area| area.way());
    let text = if json { inspected_json(&found, &way) } else { inspected_text(&found, &way) };
    print(&text).map_err(AreaFault::Show)
}

fn inspected_json(area: &ListedArea, way: &Result<Way, StoreError>) -> String {
    let mut told = area_json(area);
    (told["way"], told["why"]) = match way {
        Ok(Way::Direct) => (json!("direct"), Value::Null),
        Ok(Way::Emulated(why)) => (json!("emulated"), json!(why.text())),
        Err(error) => (Value::Null, json!(error.to_string())),
    };
    format!("{told}\n")
}

fn inspected_text(area: &ListedArea, way: &Result<Way, StoreError>) -> String {
    let way = match way {
        Ok(Way::Direct) => "you would drive the device directly".to_owned(),
        Ok(Way::Emulated(why)) => format!("a server loop would serve you: {}", why.text()),
        Err(error) => format!("you would not reach it: {error}"),
    };
    table(std::slice::from_ref(area)) + &way + "\n"
}

fn meant(kind: Kind) -> AreaKind {
    match kind {
        Kind::Raw => AreaKind::Raw,
        Kind::Log => AreaKind::Log,
        Kind::Queue => AreaKind::Queue,
    }
}

fn rights(others: &[AreaRight]) -> AreaRights {
    others.iter().fold(AreaRights::NONE, |sum, right| {
        sum.and(match right {
            AreaRight::Read => AreaRights::READ,
            AreaRight::Write => AreaRights::WRITE,
            AreaRight::Manage => AreaRights::MANAGE,
        })
    })
}

fn area_json(area: &ListedArea) -> Value {
    json!({
        "id": area.area.to_string(),
        "name": area.name.as_str(),
        "uid": area.user,
        "generation": area.generation,
        "bytes": area.bytes,
        "kind": area.kind.word(),
        "others": area.others.to_string(),
        "bytes_per_second": area.bytes_per_second,
        "handles": area.handles,
        "direct": area.direct,
        "pieces": area.pieces,
        "changing": area.is_changing,
        "exclusive": area.alone.is_some(),
        "exclusive_pid": area.alone.filter(|pid| *pid != 0),
    })
}

fn table(areas: &[ListedArea]) -> String {
    if areas.is_empty() {
        return "there is no area that you may see\n".to_owned();
    }
    let heads =
        ["name", "#uid", "kind", "#bytes", "#rate", "others", "#handles", "#direct", "state"];
    let mut table = Table::new(&heads);
    for area in areas {
        table.row([
            area.name.as_str().to_owned(),
            area.user.to_string(),
            area.kind.word().to_owned(),
            bytes(area.bytes),
            rate(area.bytes_per_second),
            area.others.to_string(),
            area.handles.to_string(),
            area.direct.to_string(),
            state(area),
        ]);
    }
    table.render()
}

fn state(area: &ListedArea) -> String {
    match (area.is_changing, area.alone) {
        (true, _) => "changing".to_owned(),
        (false, Some(0)) => "exclusive".to_owned(),
        (false, Some(pid)) => format!("exclusive, process {pid}"),
        (false, None) => "-".to_owned(),
    }
}

fn rate(bytes_per_second: u64) -> String {
    match bytes_per_second {
        0 => "-".to_owned(),
        rate => format!("{}/s", bytes(rate)),
    }
}

#[cfg(test)]
mod tests {
    use heliostat_abi::name::ObjectId;
    use heliostat_abi::store::AreaName;
    use heliostat_stub_store::Spill;

    use super::*;

    fn area() -> ListedArea {
        ListedArea {
            area: ObjectId { index: 7, generation: 2 },
            generation: 3,
            bytes: 1 << 20,
            bytes_per_second: 100 << 20,
            user: 1000,
            kind: AreaKind::Log,
            others: AreaRights::READ,
            handles: 2,
            direct: 1,
            pieces: 1,
            is_changing: true,
            alone: None,
            name: AreaName::parse("redis/log").unwrap(),
        }
    }

    #[test]
    fn the_table_tells_whose_an_area_is_and_how_it_may_be_used() {
        let wanted = "\
            name        uid  kind    bytes         rate  others  handles  direct  state\n\
            redis/log  1000  log   1.0 MiB  100.0 MiB/s  read          2       1  changing\n";
        assert_eq!(table(&[area()]), wanted);
        assert_eq!(table(&[]), "there is no area that you may see\n");
    }

    #[test]
    fn an_inspection_tells_by_which_way_and_why() {
        let text = inspected_text(&area(), &Ok(Way::Emulated(Spill::HasRate)));
        assert!(text.ends_with("cannot be held to\n"), "{text}");
        let told: Value = serde_json::from_str(&inspected_json(&area(), &Ok(Way::Direct))).unwrap();
        assert_eq!((&told["way"], &told["kind"]), (&json!("direct"), &json!("log")));
    }
}
