//! Who has how much of everything, and whether there are descriptors for more.

use heliostat_abi::code::Thing;
use heliostat_control::config::Config;
use heliostat_service_grant::{Holder, Quota, Shares, Used};
use serde_json::{json, Map, Value};

use crate::daemon::Daemon;
use crate::refused::{full, Refused};
use crate::shares;

impl Daemon {
    /// Takes the limits of a configuration over.
    pub(crate) fn set_shares(&mut self, config: &Config) {
        self.connects.set_rate(config.limits.connects);
        self.sealed_connects.set_rate(shares::sealed_rate(config));
        self.connections.set_shares(shares::connections(config));
        self.sessions.set_shares(shares::sessions(config));
        self.unread.set_shares(shares::unread(config));
        self.descriptors = shares::descriptors(config);
        let table = self.parts.table;
        table.iter().for_each(|service| service.set_limits(self, config));
    }

    /// Descriptors that are held for somebody: the sum of what goes with everything it has, and of
    /// what is still to be closed.
    pub(crate) fn descriptors_used(&self, holder: Holder) -> Used {
        let each = self.quotas().into_iter().map(|(thing, quota)| {
            let kept = match thing {
                Thing::Connections | Thing::Regions | Thing::Attachments => 2,
                Thing::DelegatedFiles => 2,
                // A queue's two ends, and the set in which the kernel counts.
                Thing::ListenerWorkers => 3,
                // What others are shown, and the thread's.
                Thing::SharedListeners => 5,
                Thing::ListenerSockets => 1,
                Thing::Channels | Thing::Leases | Thing::MemoryArenas | Thing::LockBells => 1,
                // Addresses are not counted here.
                Thing::ConfinedNames => 1,
                // Counted already, as a session's connection is; or on their way; or none.
                _ => 0,
            };
            (quota.used(holder), kept)
        });
        let waiting = self.closer.used(holder).plus(self.services.listener.held(holder), 1);
        let waiting = waiting.plus(self.proofs.used(holder), 1);
        let waiting = waiting.plus(self.services.network.carried(holder), shares::PER_CARRIED);
        each.fold(waiting, |sum, (used, kept)| sum.plus(used, kept))
    }

    /// Who has how much of everything.
    fn quotas(&self) -> Vec<(Thing, &Quota)> {
        let own = [
            (Thing::Connections, self.connections.quota()),
            (Thing::Sessions, &self.sessions),
            (Thing::Unread, self.unread.quota()),
        ];
        let mut all = Vec::from(own);
        all.extend(self.parts.table.iter().flat_map(|service| service.quotas(self)));
        all
    }

    /// Refuses what would take descriptors that others need.
    pub(crate) fn check_descriptors(&self, holder: Holder, amount: u64) -> Result<(), Refused> {
        let used = self.descriptors_used(holder);
        self.descriptors.check(holder, used, amount).map_err(|it| full(Thing::Descriptors, it))
    }

    /// Who has how much of everything, for people.
    pub(crate) fn quotas_json(&self, sees_all: bool, uid: Option<u32>) -> Value {
        let is_seen = |user| sees_all || Some(user) == uid;
        let each = self.quotas().into_iter();
        let each = each.map(|(thing, quota)| (format!("{thing:?}"), quota_json(quota, is_seen)));
        let mut each: Map<_, _> = each.collect();
        if let Some(quota) = self.services.network.quota() {
            each.insert(format!("{:?}", Thing::CarriedConnections), quota_json(&quota, is_seen));
        }
        Value::Object(each)
    }
}

fn quota_json(quota: &Quota, is_seen: impl Fn(u32) -> bool) -> Value {
    let Shares { all, reserve, user, trusted, sealed } = quota.shares();
    let mut users: Vec<_> = quota.users().filter(|(uid, _)| is_seen(*uid)).collect();
    users.sort_unstable();
    let users = users.into_iter().map(|(uid, used)| json!({ "uid": uid, "used": used }));
    json!({
        "all": all,
        "reserve": reserve,
        "per_user": user,
        "per_owner": trusted,
        "per_sealed_program": sealed,
        "used": quota.used_by_all(),
        "users": users.collect::<Vec<_>>(),
    })
}
