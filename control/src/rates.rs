//! How much may be done in a time: rates of sessions and of names, by user and group.
//!
//! Two rates hold at once: the first without names that matches a session's user holds for all that
//! the session does, and the first with names that matches a file holds for what is done with it.
//! `per` says whose bucket it is: one for each session, one for all sessions of a user, or one for
//! everybody whom the rate is about.

use crate::name::{Name, NamePattern};
use crate::rights::Subject;
use crate::rules::is_about;

/// Who has a bucket together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Per {
    /// Each session has one of its own.
    #[default]
    Session,
    /// All sessions of one user.
    User,
    /// All users of one other node.
    Node,
    /// All whom the rate is about.
    Rule,
}

/// Whose programs are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Of {
    /// This node's.
    #[default]
    Here,
    /// Those of every other node, with what is on this one.
    Others,
    /// Those of some nodes.
    Nodes(Vec<u64>),
}

/// How much in a second. Zero is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct PerSecond {
    /// Operations.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

impl PerSecond {
    /// Whether it limits nothing.
    pub fn is_unlimited(self) -> bool {
        self == PerSecond::default()
    }
}

/// One rate. An empty list of users and groups is everybody; without names it is a session's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateRule {
    /// About programs of which nodes.
    pub of: Of,
    /// About which users.
    pub users: Vec<u32>,
    /// About which groups.
    pub groups: Vec<u32>,
    /// About which names.
    pub names: Vec<NamePattern>,
    /// Who has a bucket together.
    pub per: Per,
    /// How much.
    pub per_second: PerSecond,
}

/// A rate that holds, and its place in the configuration (from 1), by which people and buckets know
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Holds {
    /// Its place; 0 is the pair in `[delegated]`.
    pub place: usize,
    /// Who has a bucket together.
    pub per: Per,
    /// How much.
    pub per_second: PerSecond,
}

/// All rates, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rates(pub Vec<RateRule>);

impl Rates {
    /// The rate of a session of `subject`'s, if one is configured.
    pub fn of_session(&self, subject: &Subject) -> Option<Holds> {
        self.first(|rule| rule.names.is_empty() && rule.is_about(subject, None))
    }

    /// The rate of a user of another node, if one is configured. A user's groups there are unknown.
    pub fn of_peer_session(&self, subject: &Subject, node: u64) -> Option<Holds> {
        self.first(|rule| rule.names.is_empty() && rule.is_about(subject, Some(node)))
    }

    /// The rate of what a user of another node does with a name, if one is configured.
    pub fn of_peer_name<'a>(
        &self,
        subject: &Subject,
        node: u64,
        name: impl Into<Name<'a>>,
    ) -> Option<Holds> {
        let name = name.into();
        self.first(|rule| {
            let mut names = rule.names.iter();
            rule.is_about(subject, Some(node)) && names.any(|pattern| pattern.matches(name))
        })
    }

    /// The rate of what `subject` does with a name, if one is configured.
    pub fn of_name<'a>(&self, subject: &Subject, name: impl Into<Name<'a>>) -> Option<Holds> {
        let name = name.into();
        self.first(|rule| {
            rule.is_about(subject, None) && rule.names.iter().any(|pattern| pattern.matches(name))
        })
    }

    /// Whether some name has a rate for `subject`: what is done past the server loops is not counted.
    pub fn has_names_for(&self, subject: &Subject) -> bool {
        self.0.iter().any(|rule| !rule.names.is_empty() && rule.is_about(subject, None))
    }

    fn first(&self, is_meant: impl Fn(&RateRule) -> bool) -> Option<Holds> {
        let (place, rule) = self.0.iter().enumerate().find(|(_, rule)| is_meant(rule))?;
        Some(Holds { place: place + 1, per: rule.per, per_second: rule.per_second })
    }
}

impl RateRule {
    /// Whether it is about somebody of this node, or of another.
    fn is_about(&self, subject: &Subject, node: Option<u64>) -> bool {
        let is_of = match (&self.of, node) {
            (Of::Here, None) | (Of::Others, Some(_)) => true,
            (Of::Nodes(nodes), Some(node)) => nodes.contains(&node),
            _ => false,
        };
        is_of && is_about((&self.users, &self.groups), subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(users: &[u32], names: &[&str], operations: u64) -> RateRule {
        RateRule {
            of: Of::Here,
            users: users.to_vec(),
            groups: Vec::new(),
            names: names.iter().map(|name| NamePattern::parse(name).unwrap()).collect(),
            per: Per::User,
            per_second: PerSecond { operations, bytes: 0 },
        }
    }

    #[test]
    fn the_first_rate_that_is_about_a_session_or_a_name_holds() {
        let rates = Rates(vec![
            rate(&[7], &["/file/srv/*"], 1),
            rate(&[7], &[], 2),
            rate(&[], &[], 3),
            rate(&[], &["/file/*"], 4),
        ]);
        let places = |uid| {
            let subject = Subject::new(uid, 0);
            let of_name = |path| rates.of_name(&subject, Name::File(path)).map(|it| it.place);
            (rates.of_session(&subject).map(|it| it.place), of_name("/srv/x"), of_name("/etc/x"))
        };
        assert_eq!(places(7), (Some(2), Some(1), Some(4)));
        assert_eq!(places(8), (Some(3), Some(4), Some(4)));
        assert_eq!(Rates::default().of_session(&Subject::new(7, 0)), None);
    }

    #[test]
    fn programs_of_other_nodes_have_rates_of_their_own() {
        let of = |of, names: &[&str], operations| RateRule { of, ..rate(&[], names, operations) };
        let rates = Rates(vec![
            rate(&[], &[], 1),
            of(Of::Nodes(vec![3]), &[], 2),
            of(Of::Others, &[], 3),
            of(Of::Others, &["/file/*"], 4),
        ]);
        let subject = Subject::new(7, 0);
        let place = |node| rates.of_peer_session(&subject, node).map(|it| it.place);
        assert_eq!((place(3), place(4)), (Some(2), Some(3)));
        assert_eq!(rates.of_session(&subject).map(|it| it.place), Some(1));
        let name = Name::File("/x");
        assert_eq!(rates.of_peer_name(&subject, 3, name).map(|it| it.place), Some(4));
        assert_eq!(rates.of_name(&subject, name), None);
    }

    #[test]
    fn only_users_of_rates_with_names_are_kept_from_reading_by_themselves() {
        let rates = Rates(vec![rate(&[7], &["/file/srv/*"], 1), rate(&[8], &[], 2)]);
        let has = |uid| rates.has_names_for(&Subject::new(uid, 0));
        assert_eq!((has(7), has(8)), (true, false));
    }
}
