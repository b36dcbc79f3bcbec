//! The rates of a configuration: `[[rate]]`.

use super::{each, read_id, read_pattern, Names, RULES_MAX, SHARED_BYTES_MAX};
use crate::config::error::{ConfigError, Fault};
use crate::config::field::Field;
use crate::rates::{Per, PerSecond, RateRule, Rates};

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
    let known = ["users", "groups", "names", "per", "operations_per_second", "bytes_per_second"];
    let section = field.section(&known)?;
    let mut per_second = PerSecond::default();
    let allowed = (0, SHARED_BYTES_MAX);
    section.number("operations_per_second", allowed, &mut per_second.operations)?;
    section.number("bytes_per_second", allowed, &mut per_second.bytes)?;
    let kinds = [("session", Per::Session), ("user", Per::User), ("rule", Per::Rule)];
    let per = section.field("per").map_or(Ok(Per::default()), |per| per.choice(&kinds))?;
    Ok(RateRule {
        users: each(&section, "users", |user| read_id(user, "user", |name| names.user(name)))?,
        groups: each(&section, "groups", |group| {
            read_id(group, "group", |name| names.group(name))
        })?,
        names: each(&section, "names", read_pattern)?,
        per,
        per_second,
    })
}
