//! The registry at work: this node is registered and kept so, and whom it names is told to the cluster.
//!
//! ```text
//! time, answers, own record --> Registration --Ask--> registry
//!                                  |--Hold--> node's thread: may act until then
//!                                  |--In----> service/cluster: whom the registry names; a watch begins
//!                                  \--Out---> node's thread: every link ends, another life begins
//! changes under members/ --> service/cluster --Admit, LeaveLink--> node's thread, services
//! all changes            --> every service: registry_changed
//! ```

use heliostat_abi::cluster::{MemberAddress, RegisteredMember, MEMBERS_PREFIX};
use heliostat_backend_registry::{Change, Event, Key, Operation, Outcome, Value, Why, Write};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{Address, LinkId};
use heliostat_service_cluster::{Answer, Ask, Found, Step};
use tracing::{debug, error, info, warn};

use super::life::incarnation;
use super::requests::leads_somewhere;
use crate::daemon::Daemon;
use crate::state::cluster_registry::{AskedBy, ClusterRegistry};

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 256;

impl Daemon {
    /// Attends to what the registry tells.
    pub(super) fn attend_registry(&mut self) {
        for _ in 0..EVENTS_AT_ONCE {
            let now = monotonic_ns();
            let Some(it) = self.cluster_registry() else { return };
            if let Some((by, outcome)) = it.not_begun.pop_front() {
                self.registry_ended(by, outcome, now);
                continue;
            }
            match it.registry.next_event(now) {
                Some(Event::Ended { token, outcome }) => {
                    if let Some(by) = it.asked.remove(&token) {
                        self.registry_ended(by, outcome, now);
                    }
                }
                Some(Event::Changed { change, .. }) => self.registry_changed(&change, now),
                Some(Event::Broken { why, .. }) => {
                    warn!(why, "changes in the registry may have been missed: it is read again");
                    it.watch = None;
                    it.own.missed(now);
                    self.pass_registry(now);
                }
                None => return it.tell_host(),
            }
        }
        self.ring_cluster();
    }

    /// Does what is due by time alone.
    pub(crate) fn pass_registry(&mut self, now: u64) {
        let Some(it) = self.cluster_registry() else { return };
        let mut steps = Vec::new();
        it.own.pass_time(now, incarnation(), &mut steps);
        let is_store_due = it.store.as_ref().is_some_and(|store| {
            let mut store = store.lock();
            let is_due = store.next_ns().is_some_and(|due| due <= now);
            store.pass_time(now);
            is_due
        });
        let is_registry_due = it.registry.next_ns().is_some_and(|due| due <= now);
        let has_steps = !steps.is_empty() || is_registry_due;
        self.take_steps(steps, now);
        if is_store_due || has_steps {
            self.ring_cluster();
        }
    }

    fn cluster_registry(&mut self) -> Option<&mut ClusterRegistry> {
        self.services.cluster.as_mut()?.registry.as_mut()
    }

    /// More is to be attended to: the bell brings us back after the others.
    fn ring_cluster(&self) {
        if let Some(cluster) = &self.services.cluster {
            let _ = rustix::io::write(&cluster.bell, &1u64.to_ne_bytes());
        }
    }

    /// Asks the registry for a service; never waits. The service of that number is told the outcome by
    /// `registry_ended`, with this token, exactly once, by the deadline at the latest. Writes without a
    /// guard are guarded by this node's own record, so that nothing is written once it is declared dead.
    pub(crate) fn ask_registry(
        &mut self,
        service: u16,
        token: u64,
        operation: Operation,
        deadline_ns: u64,
    ) -> bool {
        let now = monotonic_ns();
        let own = self.own_node().unwrap_or_default();
        let Some(it) = self.cluster_registry() else { return false };
        let by = AskedBy::Service(service, token);
        let operation = match operation {
            Operation::Write(write) if write.guard.is_none() => {
                let Some(revision) = it.own.guard(now) else {
                    it.not_begun.push_back((by, Outcome::NotDone(Why::NoLease)));
                    self.ring_cluster();
                    return true;
                };
                let guard = Key::parse(&RegisteredMember::key(own));
                let guard = guard.map(|key| heliostat_backend_registry::Guard { key, revision });
                Operation::Write(Write { guard, ..write })
            }
            other => other,
        };
        let number = it.begin(by);
        it.registry.begin(number, operation, deadline_ns);
        self.ring_cluster();
        true
    }

    fn registry_ended(&mut self, by: AskedBy, outcome: Outcome, now: u64) {
        let Some(it) = self.cluster_registry() else { return };
        let is_failure = matches!(outcome, Outcome::NotDone(_) | Outcome::Unknown(_));
        it.counts.failed += u64::from(is_failure);
        match by {
            AskedBy::Own(number) => {
                let answer = answer(outcome, &mut it.counts.malformed);
                let mut steps = Vec::new();
                it.own.answered(number, answer, now, incarnation(), &mut steps);
                self.take_steps(steps, now);
                self.say_why();
            }
            AskedBy::Service(service, token) => {
                let table = self.parts.table.iter();
                let service = table.copied().find(|it| it.number() == service);
                if let Some(service) = service {
                    service.registry_ended(self, token, outcome);
                }
            }
        }
    }

    /// Says once why this node is not registered, or not kept so.
    fn say_why(&mut self) {
        let Some(it) = self.cluster_registry() else { return };
        let why = it.own.why().map(ToOwned::to_owned);
        if why == it.said {
            return;
        }
        it.said.clone_from(&why);
        let (registry, is_held) = (&it.name, it.own.until_ns().is_some());
        match why {
            Some(why) if is_held => warn!(registry, why, "the registry is not reached"),
            Some(why) => error!(registry, why, "this node is no member; tried again"),
            None => {}
        }
    }

    fn take_steps(&mut self, steps: Vec<Step>, now: u64) {
        for step in steps {
            match step {
                Step::Ask { number, ask, deadline_ns } => {
                    let Some(it) = self.cluster_registry() else { return };
                    let token = it.begin(AskedBy::Own(number));
                    it.registry.begin(token, operation(ask, it.own_ttl_ms()), deadline_ns);
                }
                Step::Hold { until_ns } => {
                    if let Some(cluster) = &self.services.cluster {
                        cluster.nodes.hold(until_ns);
                    }
                }
                Step::In { revision, watch_after, named } => {
                    self.come_in(revision, watch_after, named, now);
                }
                Step::Out { incarnation } => self.go_out(incarnation),
            }
        }
        self.ring_cluster();
    }

    fn come_in(&mut self, revision: u64, after: u64, named: Vec<RegisteredMember>, now: u64) {
        let Some(cluster) = &mut self.services.cluster else { return };
        let Some(it) = &mut cluster.registry else { return };
        if let Some(watch) = it.watch.take() {
            it.registry.unwatch(watch);
        }
        it.watch = it.registry.watch(Key::default(), after);
        it.counts.registered += 1;
        it.said = None;
        info!(registry = it.name, revision, members = named.len() + 1, "this node is registered");
        let mut effects = Vec::new();
        let own = cluster.nodes.address();
        let named = named.into_iter().map(|it| sought_by(it, own)).collect();
        cluster.members.registered_all(named, now, &mut effects);
        cluster.members.came_in(cluster.incarnation, revision, &mut effects);
        self.order_cluster(effects);
        let table = self.parts.table;
        table.iter().for_each(|service| service.registry_ready(self, after));
    }

    fn go_out(&mut self, incarnation: u64) {
        let Some(cluster) = &mut self.services.cluster else { return };
        cluster.incarnation = incarnation;
        cluster.members.went_out();
        cluster.nodes.begin_life(incarnation);
        let Some(it) = &mut cluster.registry else { return };
        it.counts.fenced += 1;
        let (registry, why) = (&it.name, it.own.why().unwrap_or_default());
        it.said = it.own.why().map(ToOwned::to_owned);
        error!(registry, why, incarnation, "this node stops: every link ends, another life begins");
    }

    /// A record in the registry was changed.
    fn registry_changed(&mut self, change: &Change, now: u64) {
        if let Some(node) = RegisteredMember::node_of(change.key.as_str()) {
            self.member_changed(node, change, now);
        } else if change.key.as_str().starts_with(MEMBERS_PREFIX) {
            self.count_malformed(change);
        }
        let table = self.parts.table;
        table.iter().for_each(|service| service.registry_changed(self, change));
    }

    fn count_malformed(&mut self, change: &Change) {
        warn!(key = %change.key, "no record of a member in the registry");
        if let Some(it) = self.cluster_registry() {
            it.counts.malformed += 1;
        }
    }

    fn member_changed(&mut self, node: u64, change: &Change, now: u64) {
        let decoded = change.value.as_ref().map(|it| RegisteredMember::decode(node, it.bytes()));
        let named = match decoded {
            Some(Ok(named)) => Some(named),
            // Whoever cannot be read is not there.
            Some(Err(_)) => {
                self.count_malformed(change);
                None
            }
            None => None,
        };
        let own = self.own_node() == Some(node);
        let Some(cluster) = &mut self.services.cluster else { return };
        let Some(it) = &mut cluster.registry else { return };
        let (revision, mut effects) = (change.revision, Vec::new());
        if own {
            let mut steps = Vec::new();
            it.own.own_changed(named.as_ref(), revision, now, incarnation(), &mut steps);
            return self.take_steps(steps, now);
        }
        match named {
            Some(named) => {
                info!(node, incarnation = named.incarnation, revision, "a node is registered");
                let named = sought_by(named, cluster.nodes.address());
                cluster.members.registered(named, revision, now, &mut effects);
            }
            None => {
                info!(node, revision, "a node is registered no more: it is declared dead");
                it.counts.dead += 1;
                cluster.reasons.insert(node, "the registry declared it dead".to_owned());
                cluster.members.declared_dead(node, revision, now, &mut effects);
            }
        }
        self.order_cluster(effects);
    }

    /// A node that waited for the registry is named now.
    pub(super) fn admit_node(&mut self, found: Found) {
        let waiting = self.services.cluster.as_mut();
        let peer = waiting.and_then(|it| it.waiting.remove(&LinkId(found.link)));
        if let Some(peer) = peer {
            self.node_joined(peer, found.is_ours);
        }
    }
}

impl ClusterRegistry {
    fn own_ttl_ms(&self) -> u64 {
        self.own.timing().ttl_ns / 1_000_000
    }
}

/// A record whose address leads somewhere, or has none: then the node can only come by itself.
fn sought_by(named: RegisteredMember, own: Address) -> RegisteredMember {
    if leads_somewhere(&named.address, own) {
        return named;
    }
    warn!(node = named.node, address = %named.address, "registered at no address of this transport");
    RegisteredMember { address: MemberAddress::NONE, ..named }
}

/// What is asked of the registry.
fn operation(ask: Ask, ttl_ms: u64) -> Operation {
    let key = |text: &str| Key::parse(text).unwrap_or_default();
    match ask {
        Ask::Lease => Operation::Lease { ttl_ms },
        Ask::List { after } => {
            Operation::List { prefix: key(MEMBERS_PREFIX), after: after.map(|after| key(&after)) }
        }
        Ask::Put { expected, record } => Operation::Write(Write {
            key: key(&RegisteredMember::key(record.node)),
            expected,
            value: Value::new(record.encode()),
            is_leased: true,
            guard: None,
        }),
        Ask::KeepAlive => Operation::KeepAlive,
    }
}

/// What the registry's answer is to the registration.
fn answer(outcome: Outcome, malformed: &mut u64) -> Answer {
    match outcome {
        Outcome::Done { revision } => Answer::Done { revision },
        Outcome::Listed { records, revision, has_more } => {
            let last = records.last().map(|record| record.key.to_string());
            let mut named = Vec::new();
            for record in records {
                let node = RegisteredMember::node_of(record.key.as_str());
                let value = record.value.bytes();
                match node.map(|node| RegisteredMember::decode(node, value)) {
                    Some(Ok(member)) => named.push((member, record.revision)),
                    _ => {
                        debug!(key = %record.key, "no record of a member in the registry");
                        *malformed += 1;
                    }
                }
            }
            Answer::Listed { named, revision, more_after: last.filter(|_| has_more) }
        }
        Outcome::NotDone(Why::NoLease) => Answer::NoLease,
        Outcome::NotDone(why) | Outcome::Unknown(why) => Answer::Failed(why.to_string()),
        Outcome::Conflict { .. } => Answer::Failed("its record was changed meanwhile".to_owned()),
        Outcome::Found(_) | Outcome::Absent { .. } | Outcome::Unguarded => {
            Answer::Failed("the registry answered something else".to_owned())
        }
    }
}
