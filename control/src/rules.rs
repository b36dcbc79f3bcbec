//! The rules: who may connect and listen where, publish, attach and read what. The first rule that
//! matches decides.
//!
//! Without a matching rule a user may do everything with what is their own and nothing with what
//! is another's: a direct stream shares memory with its other end, which is a closer relation
//! than a TCP connection, so crossing users takes a person's word.

use crate::name::{Name, NamePattern};
use crate::rights::{Right, Subject};

/// What a matching rule says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Granted.
    Allow,
    /// Refused: the connection goes through the kernel.
    Deny,
}

/// One rule. An empty list of users and groups is everybody; empty rights are all rights; empty
/// names are all names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What it says.
    pub action: Action,
    /// About which rights.
    pub rights: Vec<Right>,
    /// About which users.
    pub users: Vec<u32>,
    /// About which groups.
    pub groups: Vec<u32>,
    /// About which names.
    pub names: Vec<NamePattern>,
}

impl Rule {
    fn matches(&self, subject: &Subject, right: Right, name: Name<'_>) -> bool {
        let right_fits = self.rights.is_empty() || self.rights.contains(&right);
        let mut names = self.names.iter();
        let is_about_all = self.names.is_empty() && name != Name::Cores;
        let name_fits = is_about_all || names.any(|pattern| pattern.matches(name));
        is_about((&self.users, &self.groups), subject) && right_fits && name_fits
    }
}

/// Whether lists of users and groups name somebody; both empty are everybody.
pub(crate) fn is_about((users, groups): (&[u32], &[u32]), subject: &Subject) -> bool {
    let is_everybody = users.is_empty() && groups.is_empty();
    let is_in_group = || groups.iter().any(|group| subject.is_in_group(*group));
    is_everybody || users.contains(&subject.uid) || is_in_group()
}

/// What decided, for logs and for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The rule with this place in the configuration (from 1) decided.
    ByRule {
        /// Its place.
        place: usize,
        /// What it says.
        action: Action,
    },
    /// No rule matched: the object is the subject's own.
    Own,
    /// No rule matched: the object belongs to another user.
    Foreign,
}

impl Decision {
    /// True when the request is granted.
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Own | Self::ByRule { action: Action::Allow, .. })
    }
}

/// All rules, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// Whether `subject` has `right` on the name, which belongs to user `owner`.
    pub fn decide<'a>(
        &self,
        subject: &Subject,
        right: Right,
        name: impl Into<Name<'a>>,
        owner: u32,
    ) -> Decision {
        let name = name.into();
        let mut rules = self.0.iter().enumerate();
        match rules.find(|(_, rule)| rule.matches(subject, right, name)) {
            Some((place, rule)) => Decision::ByRule { place: place + 1, action: rule.action },
            None if subject.uid == owner => Decision::Own,
            None => Decision::Foreign,
        }
    }

    /// The place of the first rule that is about files beneath a directory, by its path without an
    /// ending slash: what lies beneath would be judged otherwise under another path.
    pub fn first_below(&self, directory: &str) -> Option<usize> {
        let is_below = |rule: &Rule| rule.names.iter().any(|name| name.is_below(directory));
        self.0.iter().position(is_below).map(|place| place + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::name::NetAddress;

    fn address() -> NetAddress {
        NetAddress::new("127.0.0.1:80".parse().unwrap())
    }

    fn rule(action: Action) -> Rule {
        Rule { action, rights: vec![], users: vec![], groups: vec![], names: vec![] }
    }

    fn decide(rules: Vec<Rule>, uid: u32) -> Decision {
        let subject = Subject { uid, gid: 5, groups: vec![6] };
        Rules(rules).decide(&subject, Right::Connect, address(), 1000)
    }

    #[test]
    fn without_a_rule_only_the_owner_may() {
        assert_eq!(decide(vec![], 1000), Decision::Own);
        assert_eq!(decide(vec![], 1001), Decision::Foreign);
        assert!(!decide(vec![], 0).is_allowed());
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let other_port = NamePattern::parse("/net/tcp/*:81").unwrap();
        let rules = vec![
            Rule { names: vec![other_port], ..rule(Action::Deny) },
            Rule { rights: vec![Right::Listen], ..rule(Action::Deny) },
            Rule { users: vec![7], ..rule(Action::Deny) },
            rule(Action::Allow),
        ];
        let by = |place, action| Decision::ByRule { place, action };
        assert_eq!(decide(rules.clone(), 7), by(3, Action::Deny));
        assert_eq!(decide(rules, 8), by(4, Action::Allow));
    }

    #[test]
    fn rules_beneath_a_directory_are_found_by_its_path_and_no_others() {
        let about = |pattern| {
            let names = vec![NamePattern::parse(pattern).unwrap()];
            Rules(vec![rule(Action::Allow), Rule { names, ..rule(Action::Deny) }])
        };
        for beneath in ["/file/srv/a", "/file/srv/a/*", "/file/srv/*", "/file/srv/a*"] {
            assert_eq!(about(beneath).first_below("/srv"), Some(2), "{beneath}");
        }
        for beside in ["/file/srv", "/file/srv2/*", "/file/sr*", "/file/*", "/net/*", "/snapshot/*"]
        {
            assert_eq!(about(beside).first_below("/srv"), None, "{beside}");
        }
    }

    #[test]
    fn a_group_matches_by_primary_and_supplementary_membership() {
        let with = |group| vec![Rule { groups: vec![group], ..rule(Action::Allow) }];
        assert!(decide(with(5), 8).is_allowed());
        assert!(decide(with(6), 8).is_allowed());
        assert!(!decide(with(7), 8).is_allowed());
    }
}
