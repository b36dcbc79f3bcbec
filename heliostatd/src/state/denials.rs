//! What the rules deny, by kind: one line in the log for each, and how often.
//!
//! A program that is denied asks again with each connection, and a prefork server with each process:
//! a line for each would say the same until the log has been turned over. A kind is a right, a user,
//! a name and what decided; it is told at the first time, and then each time it has become ten times
//! as often. Kinds have limits, also for each user, since anybody can make up names.

use std::collections::HashMap;

use heliostat_abi::session::record::Bound;
use heliostat_control::rules::Decision;
use serde_json::{json, Value};
use tracing::info;

/// Kinds that are told apart, all users together.
const KINDS_MAX: usize = 1024;
/// Those of one user; what goes beyond is counted as one kind more.
const KINDS_PER_USER_MAX: usize = 64;
/// Stands for all names beyond the limits.
const OTHERS: &str = "(others)";

/// What one denial was about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct DenialKey {
    uid: Option<u32>,
    right: String,
    name: String,
    by: String,
}

impl DenialKey {
    /// All that is not told apart, of one user or of all.
    fn others(uid: Option<u32>) -> Self {
        let others = || OTHERS.to_owned();
        Self { uid, right: others(), name: others(), by: others() }
    }
}

/// Denials so far.
#[derive(Default)]
pub struct Denials {
    counts: HashMap<DenialKey, u64>,
    per_user: HashMap<u32, usize>,
}

impl Denials {
    /// Counts a denial by the rules, and tells it if it is of a new kind or has become frequent.
    pub fn note(&mut self, uid: u32, right: &str, name: &str, decision: Decision) {
        let by = match decision {
            Decision::ByRule { place, .. } => format!("rule {place}"),
            Decision::Own | Decision::Foreign => "no rule allows it".to_owned(),
        };
        self.count(uid, right, name, by);
    }

    /// Counts denials whose names were not told, since they came too fast.
    pub fn note_left_out(&mut self, uid: u32, right: &str, count: u64) {
        if count > 0 {
            self.add(uid, right, OTHERS, "it asks too fast for each to be told".to_owned(), count);
        }
    }

    /// Counts a request that a restricted connection may not make.
    pub fn note_restricted(&mut self, uid: u32, request: &str) {
        self.count(uid, request, "", "the connection is restricted".to_owned());
    }

    /// Counts a connection that was ended for its manners.
    pub fn note_ended(&mut self, uid: u32, why: &str) {
        self.count(uid, "connection", "", why.to_owned());
    }

    /// Counts a refusal for a limit.
    pub fn note_full(&mut self, uid: u32, bound: Bound, limit: u64) {
        let Bound { thing, side } = bound;
        self.count(uid, "limit", thing.text(), format!("{} has no more than {limit}", side.text()));
    }

    fn count(&mut self, uid: u32, right: &str, name: &str, by: String) {
        self.add(uid, right, name, by, 1);
    }

    fn add(&mut self, uid: u32, right: &str, name: &str, by: String, more: u64) {
        let asked =
            DenialKey { uid: Some(uid), right: right.to_owned(), name: name.to_owned(), by };
        let kind = self.place(uid, asked);
        let count = self.counts.entry(kind.clone()).or_default();
        let before = *count;
        *count += more;
        if is_told(before, *count) {
            let DenialKey { uid, right, name, by } = kind;
            info!(uid, right, name, by, count, "denied");
        }
    }

    /// The kind under which a denial is counted.
    fn place(&mut self, uid: u32, asked: DenialKey) -> DenialKey {
        if self.counts.contains_key(&asked) {
            return asked;
        }
        if self.counts.len() >= KINDS_MAX {
            return DenialKey::others(None);
        }
        let of_user = self.per_user.entry(uid).or_default();
        if *of_user >= KINDS_PER_USER_MAX {
            return DenialKey::others(Some(uid));
        }
        *of_user += 1;
        asked
    }

    /// Forgets what was counted: other rules hold from now on.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The denials that people may see, `uid`'s or all.
    pub fn to_json(&self, sees_all: bool, uid: Option<u32>) -> Value {
        let seen =
            self.counts.iter().filter(|(kind, _)| sees_all || (kind.uid == uid && uid.is_some()));
        let each = seen.map(|(kind, count)| {
            json!({
                "uid": kind.uid,
                "right": kind.right,
                "name": kind.name,
                "by": kind.by,
                "count": count,
            })
        });
        each.collect()
    }
}

/// Whether a count has passed 1, 10, 100, ...
fn is_told(before: u64, count: u64) -> bool {
    count.checked_ilog10().is_some_and(|digits| 10u64.pow(digits) > before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(denials: &Denials) -> Vec<u64> {
        denials.counts.values().copied().collect()
    }

    #[test]
    fn one_kind_is_counted_as_one() {
        let mut denials = Denials::default();
        for _ in 0..12 {
            denials.note(7, "connect", "/net/tcp/127.0.0.1:80", Decision::Foreign);
        }
        assert_eq!(counts(&denials), [12]);
        let told = denials.to_json(false, Some(7));
        assert_eq!((&told[0]["count"], &told[0]["by"]), (&json!(12), &json!("no rule allows it")));
        assert_eq!(denials.to_json(false, Some(8)), json!([]));
        denials.clear();
        assert_eq!(denials.to_json(true, None), json!([]));
    }

    #[test]
    fn one_user_cannot_fill_the_table_and_all_users_not_beyond_its_limit() {
        let mut denials = Denials::default();
        for name in 0..1000 {
            denials.note(7, "listen", &name.to_string(), Decision::Foreign);
        }
        assert_eq!(denials.counts.len(), KINDS_PER_USER_MAX + 1);
        assert_eq!(denials.counts.values().sum::<u64>(), 1000);
        for uid in 0..100_000 {
            denials.note(uid, "listen", "/x", Decision::Foreign);
        }
        assert_eq!(denials.counts.len(), KINDS_MAX + 1);
        assert!(denials.per_user.len() <= KINDS_MAX);
    }

    #[test]
    fn what_is_frequent_is_told_ever_more_rarely() {
        let told: Vec<u64> = (1..=100_000).filter(|count| is_told(count - 1, *count)).collect();
        assert_eq!(told, [1, 10, 100, 1000, 10_000, 100_000]);
        assert!(is_told(0, 7) && is_told(8, 12) && !is_told(12, 99), "counted many at once");
    }
}
