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
    /// All whom the rate is about.
    Rule,
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
        self.first(|rule| rule.names.is_empty() && rule.is_about(subject))
    }

    /// The rate of what `subject` does with a name, if one is configured.
    pub fn of_name<'a>(&self, subject: &Subject, name: impl Into<Name<'a>>) -> Option<Holds> {
        let name = name.into();
        self.first(|rule| {
            rule.is_about(subject) && rule.names.iter().any(|pattern| pattern.matches(name))
        })
    }

    /// Whether some name has a rate for `subject`: what is done past the server loops is not counted.
    pub fn has_names_for(&self, subject: &Subject) -> bool {
        self.0.iter().any(|rule| !rule.names.is_empty() && rule.is_about(subject))
    }

    fn first(&self, is_meant: impl Fn(&RateRule) -> bool) -> Option<Holds> {
        let (place, rule) = self.0.iter().enumerate().find(|(_, rule)| is_meant(rule))?;
        Some(Holds { place: place + 1, per: rule.per, per_second: rule.per_second })
    }
}

impl RateRule {
    fn is_about(&self, subject: &Subject) -> bool {
        is_about((&self.users, &self.groups), subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(users: &[u32], names: &[&str], operations: u64) -> RateRule {
        RateRule {
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
    fn only_users_of_rates_with_names_are_kept_from_reading_by_themselves() {
        let rates = Rates(vec![rate(&[7], &["/file/srv/*"], 1), rate(&[8], &[], 2)]);
        let has = |uid| rates.has_names_for(&Subject::new(uid, 0));
        assert_eq!((has(7), has(8)), (true, false));
    }
}
