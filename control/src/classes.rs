//! Which class calls to other nodes have: of whose programs, on which names, and of which nodes here.
//!
//! The first rule that is about a user and a name says the class; without one it is normal. A program
//! may ask for a lower one and never for a higher. Rules with nodes are about what those ask here: they
//! say the most that a node may have, whatever its requests say themselves.

use std::collections::BTreeMap;

use heliostat_abi::cluster::Class;

use crate::name::{Name, NamePattern};
use crate::rights::Subject;
use crate::rules::is_about;

/// One rule. An empty list of users and groups is everybody; without names it is about all names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassRule {
    /// About which users.
    pub users: Vec<u32>,
    /// About which groups.
    pub groups: Vec<u32>,
    /// About which names.
    pub names: Vec<NamePattern>,
    /// About requests of which nodes; then about nothing of this node.
    pub nodes: Vec<u64>,
    /// What it says.
    pub class: Class,
}

/// All of them, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Classes(pub Vec<ClassRule>);

impl Classes {
    /// The class of what a subject does with a name, or with something that has none.
    pub fn of(&self, subject: &Subject, name: Option<Name<'_>>) -> Class {
        let fits = |rule: &ClassRule| {
            let has_name = |pattern: &NamePattern| name.is_some_and(|name| pattern.matches(name));
            rule.nodes.is_empty()
                && is_about((&rule.users, &rule.groups), subject)
                && (rule.names.is_empty() || rule.names.iter().any(has_name))
        };
        self.0.iter().find(|rule| fits(rule)).map_or(Class::Normal, |rule| rule.class)
    }

    /// The most that requests of nodes may have here: the first rule that names one says it.
    pub fn ceilings(&self) -> BTreeMap<u64, Class> {
        let mut ceilings = BTreeMap::new();
        for rule in &self.0 {
            rule.nodes.iter().for_each(|node| {
                ceilings.entry(*node).or_insert(rule.class);
            });
        }
        ceilings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(users: &[u32], names: &[&str], nodes: &[u64], class: Class) -> ClassRule {
        let names = names.iter().map(|name| NamePattern::parse(name).unwrap()).collect();
        ClassRule { users: users.to_vec(), groups: Vec::new(), names, nodes: nodes.to_vec(), class }
    }

    #[test]
    fn the_first_rule_about_user_and_name_says_the_class() {
        let classes = Classes(vec![
            rule(&[], &[], &[3], Class::Low),
            rule(&[7], &["/file/hot/*"], &[], Class::High),
            rule(&[7], &[], &[], Class::Low),
            rule(&[], &["/file/hot/*"], &[], Class::High),
        ]);
        let of = |uid, name: Option<&str>| {
            let name = name.map(Name::File);
            classes.of(&Subject::new(uid, 0), name)
        };
        assert_eq!(of(7, Some("/hot/a")), Class::High);
        assert_eq!((of(7, Some("/cold")), of(7, None)), (Class::Low, Class::Low));
        assert_eq!((of(8, Some("/hot/a")), of(8, None)), (Class::High, Class::Normal));
    }

    #[test]
    fn rules_with_nodes_are_about_what_those_ask_here() {
        let classes = Classes(vec![
            rule(&[], &[], &[3, 4], Class::Normal),
            rule(&[], &[], &[4, 5], Class::Low),
        ]);
        let wanted = [(3, Class::Normal), (4, Class::Normal), (5, Class::Low)];
        assert_eq!(classes.ceilings(), BTreeMap::from(wanted));
        assert_eq!(classes.of(&Subject::new(1, 1), None), Class::Normal);
    }
}
