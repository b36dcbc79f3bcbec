//! The rates of a configuration: `[[rate]]`.

use heliostat_abi::cluster::limits::NODE_MAX;

use super::{each, read_id, read_pattern, Names, RULES_MAX, SHARED_BYTES_MAX};
use crate::config::error::{ConfigError, Fault};
use crate::config::field::{Field, Section};
use crate::name::NamePattern;
use crate::rates::{Of, Per, PerSecond, RateRule, Rates};

/// Reads the list of rates.
pub fn read(field: &Field<'_>, names: &dyn Names) -> Result<Rates, ConfigError> {
    let list = field.list()?;
    if list.len() > RULES_MAX {
        let message = format!("{} rates, at most {RULES_MAX} are allowed", list.len());
        return Err(field.fault(Fault::Value(message)));
    }
    list.iter().map(|rate| read_one(rate, names)).collect::<Result<_, _>>().map(Rates)
}

fn read_one(field: &Field<'_>, names: &dyn Names) -> Result<RateRule, ConfigError> {
    let known =
        ["users", "groups", "names", "nodes", "per", "operations_per_second", "bytes_per_second"];
    let section = field.section(&known)?;
    let mut per_second = PerSecond::default();
    let allowed = (0, SHARED_BYTES_MAX);
    section.number("operations_per_second", allowed, &mut per_second.operations)?;
    section.number("bytes_per_second", allowed, &mut per_second.bytes)?;
    let kinds =
        [("session", Per::Session), ("user", Per::User), ("node", Per::Node), ("rule", Per::Rule)];
    let per = section.field("per").map_or(Ok(Per::default()), |per| per.choice(&kinds))?;
    let rated = each(&section, "names", read_rated)?;
    let of = read_nodes(&section)?;
    if per == Per::Node && of == Of::Here {
        let message = "`per = \"node\"` is for rates of `nodes`".to_owned();
        let per = section.field("per");
        return Err(per.as_ref().unwrap_or(field).fault(Fault::Value(message)));
    }
    Ok(RateRule {
        users: each(&section, "users", |user| read_id(user, "user", |name| names.user(name)))?,
        groups: each(&section, "groups", |group| {
            read_id(group, "group", |name| names.group(name))
        })?,
        names: rated,
        of,
        per,
        per_second,
    })
}

/// A name that has a rate by this list. Areas have theirs in `[store]`, or each one of its own.
fn read_rated(field: &Field<'_>) -> Result<NamePattern, ConfigError> {
    let pattern = read_pattern(field)?;
    if matches!(pattern, NamePattern::Area(_) | NamePattern::Areas(_)) {
        let message = "areas have rates by store.bytes_per_second, or by heliostat area rate";
        return Err(field.fault(Fault::Value(message.to_owned())));
    }
    Ok(pattern)
}

/// Whose programs a rate is about: this node's, those of all others, or of some.
fn read_nodes(section: &Section<'_>) -> Result<Of, ConfigError> {
    match section.field("nodes") {
        None => Ok(Of::Here),
        Some(field) if field.text().is_ok_and(|text| text == "all") => Ok(Of::Others),
        Some(_) => each(section, "nodes", |node| node.number((1, NODE_MAX))).map(Of::Nodes),
    }
}
