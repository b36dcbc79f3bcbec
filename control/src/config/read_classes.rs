//! The classes of a configuration: `[[class]]`.

use heliostat_abi::cluster::limits::NODE_MAX;
use heliostat_abi::cluster::Class;

use super::{each, read_id, read_pattern, Names, RULES_MAX};
use crate::classes::{ClassRule, Classes};
use crate::config::error::{ConfigError, Fault};
use crate::config::field::Field;

/// Reads the list of classes.
pub fn read(field: &Field<'_>, names: &dyn Names) -> Result<Classes, ConfigError> {
    let list = field.list()?;
    if list.len() > RULES_MAX {
        let message = format!("{} classes, at most {RULES_MAX} are allowed", list.len());
        return Err(field.fault(Fault::Value(message)));
    }
    list.iter().map(|rule| read_one(rule, names)).collect::<Result<_, _>>().map(Classes)
}

fn read_one(field: &Field<'_>, names: &dyn Names) -> Result<ClassRule, ConfigError> {
    let section = field.section(&["users", "groups", "names", "nodes", "class"])?;
    let kinds = Class::ALL.map(|class| (class.word(), class));
    let rule = ClassRule {
        users: each(&section, "users", |user| read_id(user, "user", |name| names.user(name)))?,
        groups: each(&section, "groups", |group| {
            read_id(group, "group", |name| names.group(name))
        })?,
        names: each(&section, "names", read_pattern)?,
        nodes: each(&section, "nodes", |node| node.number((1, NODE_MAX)))?,
        class: section.required("class")?.choice(&kinds)?,
    };
    let is_of_programs =
        !(rule.users.is_empty() && rule.groups.is_empty() && rule.names.is_empty());
    if !rule.nodes.is_empty() && is_of_programs {
        let message =
            "a class of `nodes` is about all that they ask: leave the rest out".to_owned();
        return Err(field.fault(Fault::Value(message)));
    }
    Ok(rule)
}
