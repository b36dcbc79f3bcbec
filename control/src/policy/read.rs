//! From the text of a policy file to a checked `Policy`.

use std::fmt::Display;

use super::size::{parse_bytes, BYTES_MAX, BYTES_MIN};
use super::{
    Endpoint, Limits, NamePattern, NamesOf, PathGrant, Policy, PolicyError, RegionScope, Variable,
    ENTRIES_MAX,
};
use crate::config::field::{Field, Section, Source};
use crate::config::{ConfigError, Fault};

/// The kernel's own limit on process numbers on 64-bit machines.
const PROCESSES_MAX: u64 = 4_194_304;

impl Policy {
    /// Reads a policy; every key may be left out. The error has the line, from 1, the key, and what
    /// to write instead.
    pub fn from_toml(text: &str) -> Result<Policy, PolicyError> {
        let source = Source(text);
        let document = source.document()?;
        let known = [
            "system", "grant", "listen", "connect", "lookup", "env", "user", "delegate",
            "snapshot", "memory", "lock", "call", "area", "limits",
        ];
        let root = Section::new(source, "", 0, document.get_ref(), &known)?;
        let mut policy = Policy::default();
        if let Some(system) = root.field("system") {
            policy.system = system.truth()?;
        }
        policy.grants = read_grants(&root)?;
        policy.listen =
            each(&root, "listen", |field| read_endpoint(field, Endpoint::parse_listen))?;
        policy.connect =
            each(&root, "connect", |field| read_endpoint(field, Endpoint::parse_connect))?;
        policy.lookup = each(&root, "lookup", |field| read(field, NamePattern::parse))?;
        policy.env = each(&root, "env", |field| read(field, Variable::parse))?;
        policy.users = each(&root, "user", |field| read(field, user_name))?;
        if let Some(delegate) = root.field("delegate") {
            policy.delegate = delegate.truth()?;
        }
        policy.regions = read_scopes(&root, NamesOf::Snapshots)?;
        policy.memory = read_scopes(&root, NamesOf::Memory)?;
        policy.locks = read_scopes(&root, NamesOf::Locks)?;
        policy.calls = read_scopes(&root, NamesOf::Functions)?;
        policy.areas = read_scopes(&root, NamesOf::Areas)?;
        if let Some(limits) = root.field("limits") {
            policy.limits = read_limits(&limits)?;
        }
        Ok(policy)
    }
}

fn read_scopes(root: &Section<'_>, names: NamesOf) -> Result<Vec<RegionScope>, ConfigError> {
    each(root, names.key(), |field| read(field, |text| RegionScope::parse_of(names, text)))
}

fn read_grants(root: &Section<'_>) -> Result<Vec<PathGrant>, ConfigError> {
    let mut grants: Vec<PathGrant> = Vec::new();
    each(root, "grant", |field| {
        let grant = read(field, PathGrant::parse)?;
        if let Some(earlier) = grants.iter().find(|earlier| earlier.path == grant.path) {
            let message = format!(
                "{} is granted twice, before as :{}; keep one of the two",
                grant.path.display(),
                earlier.access.word()
            );
            return Err(field.fault(Fault::Value(message)));
        }
        grants.push(grant);
        Ok(())
    })?;
    Ok(grants)
}

/// An endpoint as a text, or a bare port as a number.
fn read_endpoint<E: Display>(
    field: &Field<'_>,
    parse: impl Fn(&str) -> Result<Endpoint, E>,
) -> Result<Endpoint, ConfigError> {
    if !field.is_number() {
        return read(field, parse);
    }
    let port = field.number((0, u64::from(u16::MAX)))?;
    parse(&port.to_string()).map_err(|error| field.fault(Fault::Value(error.to_string())))
}

fn read_limits(field: &Field<'_>) -> Result<Limits, ConfigError> {
    let section = field.section(&["memory", "processes", "tmp"])?;
    let bytes = |key| section.field(key).map(read_bytes).transpose();
    let mut limits = Limits { memory: bytes("memory")?, tmp: bytes("tmp")?, processes: None };
    if let Some(processes) = section.field("processes") {
        limits.processes = u32::try_from(processes.number((1, PROCESSES_MAX))?).ok();
    }
    Ok(limits)
}

/// A name as it stands in passwd(5).
pub(super) fn user_name(text: &str) -> Result<String, &'static str> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | ',' | '/');
    match text.is_empty() || text.contains(is_odd) {
        true => Err("this is no user's name"),
        false => Ok(text.to_owned()),
    }
}

fn read_bytes(field: Field<'_>) -> Result<u64, ConfigError> {
    match field.is_number() {
        true => field.number((BYTES_MIN, BYTES_MAX)),
        false => read(&field, parse_bytes),
    }
}

/// Every element of a list that may be left out, and empty: nothing is granted then.
fn each<'a, T>(
    section: &Section<'a>,
    key: &str,
    read: impl FnMut(&Field<'a>) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let Some(field) = section.field(key) else { return Ok(Vec::new()) };
    let list = field.list()?;
    if list.len() > ENTRIES_MAX {
        let message =
            format!("{} entries, at most {ENTRIES_MAX} are allowed; grant folders", list.len());
        return Err(field.fault(Fault::Value(message)));
    }
    list.iter().map(read).collect()
}

fn read<T, E: Display>(
    field: &Field<'_>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, ConfigError> {
    parse(field.text()?).map_err(|error| field.fault(Fault::Value(error.to_string())))
}
