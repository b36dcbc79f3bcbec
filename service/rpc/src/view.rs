//! What people and loops are shown.

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::limits::LISTED_PER_REPLY_MAX;
use heliostat_abi::rpc::reply::NO_MORE;
use heliostat_abi::rpc::{FunctionInfo, ListedFunction};
use heliostat_service_grant::Quota;

use crate::rpc::{Function, Rpc};

/// What one session has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Functions that it serves.
    pub serves: usize,
    /// Functions that it calls.
    pub calls: usize,
}

impl Rpc {
    /// What a session has.
    pub fn holding(&self, session: ObjectId) -> Holding {
        let roles = self.functions.of(session).filter_map(|id| self.functions.held(session, id));
        roles.fold(Holding::default(), |sum, (_, role)| Holding {
            serves: sum.serves + usize::from(role.serves),
            calls: sum.calls + usize::from(role.calls),
        })
    }

    /// Every function, for a loop that begins.
    pub fn all(&self) -> Vec<FunctionInfo> {
        self.functions.iter().filter_map(|(id, _)| self.info(id)).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.functions.len()
    }

    /// Some functions from an index on whose names begin so, of users that `sees` allows, and the
    /// index to go on from.
    pub fn list(
        &self,
        from: u32,
        beginning: &str,
        now_ns: u64,
        sees: impl Fn(u32) -> bool,
    ) -> (Vec<ListedFunction>, u32) {
        let mut found = Vec::new();
        let is_meant = |function: &Function| {
            sees(function.key.uid) && function.key.name.as_str().starts_with(beginning)
        };
        let behind = self.functions.iter().filter(|(id, _)| id.index >= from);
        for (id, function) in behind.filter(|(_, function)| is_meant(function)) {
            if found.len() == LISTED_PER_REPLY_MAX {
                return (found, id.index);
            }
            found.push(self.listed(id, function, now_ns));
        }
        (found, NO_MORE)
    }

    fn listed(&self, id: ObjectId, function: &Function, now_ns: u64) -> ListedFunction {
        let count = |is: fn(&crate::Role) -> bool| {
            self.functions.sessions(id).filter(|(_, role)| is(role)).count() as u32
        };
        let age_s = now_ns.saturating_sub(function.since_ns) / 1_000_000_000;
        ListedFunction {
            function: id,
            user: function.key.uid,
            servers: count(|role| role.serves),
            callers: count(|role| role.calls),
            request_bytes: function.request_bytes,
            reply_bytes: function.reply_bytes,
            age_s: u32::try_from(age_s).unwrap_or(u32::MAX),
            others: function.others,
            name: function.key.name.clone(),
        }
    }

    /// Who has how much.
    pub fn quotas(&self) -> Vec<(Thing, &Quota)> {
        vec![self.functions.quota()]
    }
}
