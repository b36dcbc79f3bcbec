//! Regions as such: made, found, freed, and how many there may be.

use heliostat_abi::memory::Rights;
use heliostat_server_node::PeerNode;
use heliostat_service_replica::{Client, Fault, Identity, Member, Placement, Replica, RECENT_MAX};

use crate::carry::may_have;
use crate::engine::{Engine, Freer, OneClient, Region, Todo};
use crate::input::{Called, Then};
use crate::message::{header, put_identity, Kind};
use crate::request::{Draft, Failure, Opened};

/// How long the node of a primary may take that is to free its region.
const FREE_NS: u64 = 2_000_000_000;

impl Engine {
    pub(crate) fn make(&mut self, draft: Draft, then: Then<Result<Opened, Failure>>) {
        if let Some(limit) = self.full(draft.owner, draft.bytes) {
            return then(Err(Failure::Full(limit)));
        }
        let wanted = draft.wanted as usize;
        let is_meant = |it: &&PeerNode| draft.nodes.is_empty() || draft.nodes.contains(&it.node.0);
        let nodes = self.joined.values().filter(is_meant);
        let backups: Vec<Member> = nodes
            .map(|it| Member { node: it.node.0, life: it.incarnation })
            .take(wanted.saturating_sub(1))
            .collect();
        if backups.len() + 1 < wanted {
            return then(Err(Failure::TooFew { found: backups.len() + 1 }));
        }
        let (me, number) = (self.starting.me, self.next());
        let identity = Identity { maker: me, number };
        let Draft { key, owner, others, bytes, wanted, .. } = draft;
        let (appointed, epoch, primary) = (Vec::new(), 1, me);
        let placement = Placement {
            identity,
            owner,
            others,
            appointed,
            bytes,
            wanted,
            epoch,
            primary,
            backups,
        };
        self.making.insert(number, (identity, then));
        let mut effects = Vec::new();
        let replica = Replica::make(placement, RECENT_MAX, number, &mut effects);
        self.regions.insert(identity, Region { key, replica, refused_ns: 0 });
        self.todo.extend(effects.into_iter().map(|it| Todo::Replica(identity, it)));
    }

    /// The limit that leaves no room for another replica, if one does.
    pub(crate) fn full(&self, owner: u32, bytes: u64) -> Option<u64> {
        let limits = self.starting.limits;
        let all = || self.regions.values().map(|it| it.replica.placement());
        let sum: u64 = all().map(|it| it.bytes).sum();
        let its: u64 = all().filter(|it| it.owner == owner).map(|it| it.bytes).sum();
        if self.regions.len() >= limits.replicas {
            return Some(limits.replicas as u64);
        }
        if sum.saturating_add(bytes) > limits.bytes {
            return Some(limits.bytes);
        }
        if its.saturating_add(bytes) > limits.bytes_per_user {
            return Some(limits.bytes_per_user);
        }
        // An allocation that fails would end the process.
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        Vec::<u8>::new().try_reserve_exact(length).is_err().then_some(sum)
    }

    pub(crate) fn made(&mut self, token: u64, result: Result<(), Fault>) {
        let Some((identity, then)) = self.making.remove(&token) else { return };
        let found = self.regions.get(&identity).map(|it| it.replica.placement().clone());
        match (result, found) {
            (Ok(()), Some(placement)) => {
                let key = self.regions[&identity].key.clone();
                self.opened(key, &placement);
                then(Ok(Opened { placement }));
            }
            (Err(fault), _) => then(Err(Failure::Fault(fault))),
            (Ok(()), None) => then(Err(Failure::NotFound)),
        }
    }

    /// Whether one more region may be found, once those that are gone are forgotten.
    pub(crate) fn has_room(&mut self) -> bool {
        let most = self.starting.limits.found;
        if self.clients.len() >= most {
            self.clients.retain(|_, it| !it.client.is_gone() || it.client.waiting() > 0);
        }
        self.clients.len() < most
    }

    /// A region was found: this node has a client of it from now on.
    pub(crate) fn opened(&mut self, key: String, placement: &Placement) {
        let client = Client::new(self.starting.me, placement.clone());
        self.clients.entry(placement.identity).or_insert(OneClient { key, client });
    }

    pub(crate) fn free(&mut self, identity: Identity, user: u32, freer: Freer) {
        let token = self.next();
        let Some(region) = self.regions.get_mut(&identity) else {
            return self.free_elsewhere(identity, user, freer);
        };
        if !region.replica.is_primary() {
            return self.free_elsewhere(identity, user, freer);
        }
        if !may_have(region.replica.placement(), user, Rights::MANAGE) {
            return self.tell_freer(freer, Err(Fault::Denied));
        }
        let mut effects = Vec::new();
        region.replica.free(token, &mut effects);
        self.freeing.insert(token, freer);
        self.todo.extend(effects.into_iter().map(|it| Todo::Replica(identity, it)));
    }

    pub(crate) fn free_elsewhere(&mut self, identity: Identity, user: u32, freer: Freer) {
        let found = self.clients.get(&identity).map(|it| it.client.placement().primary);
        match (found, &freer) {
            (Some(primary), Freer::Here(_)) if primary != self.starting.me => {
                let token = self.next();
                self.freeing.insert(token, freer);
                let header = header(Kind::Free, &user.to_le_bytes());
                let message = (header, put_identity(identity, 0), FREE_NS);
                self.call(1, primary, message, Called::Free(token));
            }
            _ => self.tell_freer(freer, Err(Fault::NotPrimary)),
        }
    }

    pub(crate) fn tell_freer(&self, freer: Freer, result: Result<(), Fault>) {
        match freer {
            Freer::Node(ask) => {
                let told = match result {
                    Ok(()) => 0,
                    Err(Fault::Denied) => 2,
                    Err(_) => 1,
                };
                self.replies.reply(ask, Vec::new(), vec![told]);
            }
            Freer::Here(then) => then(result),
        }
    }
}
