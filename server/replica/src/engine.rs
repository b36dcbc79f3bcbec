//! The thread: takes what comes, gives it to the machine that it is about, and carries out what that
//! says.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::PoisonError;
use std::time::Duration;

use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{AskId, Caller, PeerNode, Replies};
use heliostat_service_replica::{
    Action, Answered, Client, ClientEffect, Effect, Failed, Fault, Identity, Member, Replica,
};

use crate::input::{Alterer, Input, Then, Wanted};
use crate::keeper::Keeper;
use crate::request::{Failure, Opened, ReplicaStatus, Shown, Starting};

/// How often it is looked what waits for time, while something does.
const TICK_NS: u64 = 20_000_000;
/// The same while nothing does: a node that was lost unheard is noticed.
const IDLE_TICK_NS: u64 = 1_000_000_000;
/// After how long a silent backup looks whether it follows the right primary.
const SILENCE_NS: u64 = 30_000_000_000;
/// How long an operation is tried: primaries may change meanwhile.
const OPERATION_NS_MAX: u64 = 10_000_000_000;
/// How long nobody is invited after a node had no room.
const REFUSED_NS: u64 = 5_000_000_000;

/// The thread's own.
pub(crate) struct Engine {
    pub(crate) starting: Starting,
    /// For entries, for operations, for records.
    pub(crate) callers: [Caller; 3],
    pub(crate) replies: Replies,
    pub(crate) sender: Sender<Input>,
    shown: Shown,
    shown_count: usize,
    pub(crate) joined: BTreeMap<u64, PeerNode>,
    pub(crate) regions: HashMap<Identity, Region>,
    pub(crate) clients: HashMap<Identity, OneClient>,
    pub(crate) operations: HashMap<u64, Asked>,
    submitted: HashMap<u64, (u32, Then<Result<Answered, Failed>>)>,
    pub(crate) opening: HashMap<u64, (String, Then<Result<Opened, Failure>>)>,
    pub(crate) making: HashMap<u64, (Identity, Then<Result<Opened, Failure>>)>,
    pub(crate) freeing: HashMap<u64, Freer>,
    pub(crate) altering: HashMap<u64, Alterer>,
    pub(crate) records: HashMap<u64, Wanted>,
    pub(crate) keeper: Keeper,
    pub(crate) keeper_life: Option<u64>,
    pub(crate) todo: VecDeque<Todo>,
    last: u64,
    tick_ns: u64,
}

/// A region's replica here.
pub(crate) struct Region {
    pub(crate) key: String,
    pub(crate) replica: Replica,
    pub(crate) refused_ns: u64,
}

/// This node's client of a region.
pub(crate) struct OneClient {
    pub(crate) key: String,
    pub(crate) client: Client,
}

/// Who asked for an operation of a replica here.
pub(crate) enum Asked {
    /// Another node.
    Node(AskId),
    /// This node's client.
    Client(Identity, u64),
}

/// Who waits for the end of a region.
pub(crate) enum Freer {
    Node(AskId),
    Here(Then<Result<(), Fault>>),
}

/// What is to be carried out.
pub(crate) enum Todo {
    Replica(Identity, Effect),
    Client(Identity, ClientEffect),
}

impl Engine {
    pub(crate) fn new(
        starting: Starting,
        callers: [Caller; 3],
        (replies, sender, shown): (Replies, Sender<Input>, Shown),
    ) -> Engine {
        Engine {
            starting,
            callers,
            replies,
            sender,
            shown,
            shown_count: 0,
            joined: BTreeMap::new(),
            regions: HashMap::new(),
            clients: HashMap::new(),
            operations: HashMap::new(),
            submitted: HashMap::new(),
            opening: HashMap::new(),
            making: HashMap::new(),
            freeing: HashMap::new(),
            altering: HashMap::new(),
            records: HashMap::new(),
            keeper: Keeper::default(),
            keeper_life: None,
            todo: VecDeque::new(),
            last: 0,
            tick_ns: 0,
        }
    }

    /// Runs until it is told to end.
    pub(crate) fn run(mut self, inputs: &Receiver<Input>) {
        loop {
            let now_ns = monotonic_ns();
            let wait_ns = self.tick_ns.saturating_sub(now_ns);
            let input = match self.wait_ns() {
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(_) => inputs.recv_timeout(Duration::from_nanos(wait_ns)),
            };
            match input {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.carry_out();
            if self.shown_count != self.regions.len() {
                self.show();
            }
            let now_ns = monotonic_ns();
            if self.tick_ns <= now_ns
                || self.tick_ns > now_ns + self.wait_ns().unwrap_or(u64::MAX >> 1)
            {
                if self.tick_ns <= now_ns {
                    self.tick(now_ns);
                    self.carry_out();
                    self.show();
                }
                self.tick_ns = now_ns + self.wait_ns().unwrap_or(IDLE_TICK_NS);
            }
        }
    }

    /// How long until the next tick; none where nothing needs one.
    fn wait_ns(&self) -> Option<u64> {
        let is_restless = self.clients.values().any(|it| it.client.waiting() > 0)
            || self.regions.values().any(|it| it.replica.is_restless());
        match is_restless {
            true => Some(TICK_NS),
            false => (!self.regions.is_empty()).then_some(IDLE_TICK_NS),
        }
    }

    /// A number that nothing else has here.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Asked { from, ask, header, payload } => {
                // It is joined, which may be said later on the other way; that it is lost is said after.
                self.joined.entry(from.node.0).or_insert(from);
                self.asked(from, ask, &header, &payload);
            }
            Input::Called(called, outcome) => self.called(called, outcome),
            Input::Joined(peer) => {
                self.joined.insert(peer.node.0, peer);
                self.tick_ns = 0;
            }
            Input::Lost(peer) => self.lose(peer),
            Input::Record(token, answer) => {
                if let Some(wanted) = self.records.remove(&token) {
                    self.record_came(wanted, answer);
                }
            }
            Input::Lives(life) => self.live(life),
            Input::Make(_, then) | Input::Open(_, then) if !self.has_room() => {
                then(Err(Failure::Full(self.starting.limits.found as u64)));
            }
            Input::Make(draft, then) => self.make(draft, then),
            Input::Open(key, then) => {
                let token = self.next();
                self.opening.insert(token, (key.clone(), then));
                self.read_record(&key, Wanted::Open(token));
            }
            Input::Free(region, user, then) => self.free(region, user, Freer::Here(then)),
            Input::Alter(region, user, alter, then) => {
                self.alter(region, user, alter, Alterer::Here(then));
            }
            Input::Limits(limits) => self.starting.limits = limits,
            Input::Submit(region, user, action, then) => self.submit(region, (user, action), then),
            Input::End => {}
        }
    }

    fn lose(&mut self, peer: PeerNode) {
        if self.joined.get(&peer.node.0) != Some(&peer) {
            return;
        }
        self.joined.remove(&peer.node.0);
        let lost = Member { node: peer.node.0, life: peer.incarnation };
        for (identity, region) in &mut self.regions {
            let mut effects = Vec::new();
            region.replica.lose(lost, &mut effects);
            self.todo.extend(effects.into_iter().map(|it| Todo::Replica(*identity, it)));
        }
    }

    /// Another life begins: what the earlier one had is not this node's any more, and nobody knows what
    /// became of what it asked.
    fn live(&mut self, life: u64) {
        if self.starting.me.life == life {
            return;
        }
        self.starting.me.life = life;
        self.regions.clear();
        let asked: Vec<_> = self.operations.drain().map(|it| it.1).collect();
        for asked in asked {
            if let Asked::Node(ask) = asked {
                self.replies.refuse(ask);
            }
        }
        let all: Vec<u64> = self.submitted.keys().copied().collect();
        all.into_iter().for_each(|it| self.submitted(it, Err(Failed::Unknown)));
        let lost = Fault::Unreachable(self.starting.me.node);
        for (_, then) in std::mem::take(&mut self.making).into_values() {
            then(Err(Failure::Fault(lost)));
        }
        for freer in std::mem::take(&mut self.freeing).into_values() {
            self.tell_freer(freer, Err(lost));
        }
        let me = self.starting.me;
        for one in self.clients.values_mut() {
            one.client = Client::new(me, one.client.placement().clone());
        }
    }

    fn tick(&mut self, now_ns: u64) {
        let me = self.starting.me;
        let joined: Vec<Member> = self
            .joined
            .values()
            .map(|it| Member { node: it.node.0, life: it.incarnation })
            .collect();
        for (identity, region) in &mut self.regions {
            let mut effects = Vec::new();
            let is_joined = |it: Member| it == me || joined.contains(&it);
            region.replica.tick((now_ns, SILENCE_NS), is_joined, &mut effects);
            if region.refused_ns <= now_ns {
                joined.iter().for_each(|it| region.replica.invite(*it, &mut effects));
            }
            self.todo.extend(effects.into_iter().map(|it| Todo::Replica(*identity, it)));
        }
        for (identity, one) in &mut self.clients {
            let mut effects = Vec::new();
            one.client.tick(now_ns, &mut effects);
            self.todo.extend(effects.into_iter().map(|it| Todo::Client(*identity, it)));
        }
    }

    fn submit(
        &mut self,
        region: Identity,
        (user, action): (u32, Action),
        then: Then<Result<Answered, Failed>>,
    ) {
        let number = self.next();
        let Some(one) = self.clients.get_mut(&region) else { return then(Err(Failed::Gone)) };
        self.submitted.insert(number, (user, then));
        let until_ns = monotonic_ns().saturating_add(OPERATION_NS_MAX);
        let mut effects = Vec::new();
        one.client.submit((number, number), action, until_ns, &mut effects);
        self.todo.extend(effects.into_iter().map(|it| Todo::Client(region, it)));
    }

    pub(crate) fn user_of(&self, number: u64) -> u32 {
        self.submitted.get(&number).map_or(u32::MAX, |it| it.0)
    }

    pub(crate) fn submitted(&mut self, number: u64, result: Result<Answered, Failed>) {
        if let Some((_, then)) = self.submitted.remove(&number) {
            then(result);
        }
    }

    pub(crate) fn refused(&mut self, identity: Identity) {
        if let Some(region) = self.regions.get_mut(&identity) {
            region.refused_ns = monotonic_ns().saturating_add(REFUSED_NS);
        }
    }

    /// Shows people what is here.
    fn show(&mut self) {
        let one = |it: &Region| ReplicaStatus {
            key: it.key.clone(),
            placement: it.replica.placement().clone(),
            is_primary: it.replica.is_primary(),
            entries: it.replica.entries(),
        };
        let all: Vec<_> = self.regions.values().map(one).collect();
        self.shown_count = all.len();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }
}
