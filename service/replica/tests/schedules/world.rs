//! Some nodes with a replica or none each, their clients, a registry, and what lies between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use heliostat_service_replica::{
    Action, Answer, Append, Client, ClientEffect, Effect, Failed, Identity, Member, Operate,
    Outcome, Placement, Received, Record, Replica, RequestId, Unanswered,
};
use heliostat_verify_linearizability::model::WordOperation;
use heliostat_verify_linearizability::{Call, History};

use crate::random::Random;

const NODES: u64 = 4;
const PROCESSES: u64 = 4;
const WORDS: u64 = 2;
const MS: u64 = 1_000_000;
const REGION_BYTES: u64 = 64;
/// Few, so that requests are forgotten now and then.
const RECENT: usize = 12;

/// What a wrong implementation would do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    AnswersEarly,
    NewIdentities,
}

/// An operation on one of the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnWord {
    pub word: u64,
    pub operation: WordOperation,
}

struct Node {
    me: Member,
    is_alive: bool,
    replica: Option<Replica>,
    client: Client,
}

/// The primary's name for who is sent something.
type Tag = (u64, u64);

enum Event {
    Append(Member, Member, (u64, Tag), Box<Append>),
    Received(Member, Member, (u64, Tag), Received),
    AppendLate(Member, Member, (u64, Tag)),
    Operate(Member, Member, u64, Box<Operate>),
    Answered(Member, u64, u64, Answer),
    OperateLate(Member, u64, u64),
    Forget(Member, u64),
    Propose(Member, (u64, u64), Option<Box<Placement>>),
    Proposed(Member, u64, Outcome),
    Look(Member, Option<u64>),
    Looked(Member, Option<u64>),
    Tick,
}

struct Waiting {
    call: usize,
    process: u64,
}

pub struct World {
    random: Random,
    broken: Option<Broken>,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    drawn: u64,
    nodes: Vec<Node>,
    lives: u64,
    cuts: BTreeSet<(u64, u64)>,
    record: Record,
    calls: Vec<Call<OnWord, u64>>,
    removed: BTreeSet<usize>,
    open: BTreeMap<u64, Waiting>,
    busy: BTreeMap<u64, Option<u64>>,
    next_process: u64,
    next_request: u64,
    /// Messages that wait for an answer: the operation's token at the primary, and who asked.
    asked: BTreeMap<u64, (Member, u64)>,
    /// Messages that were answered or given up.
    over: BTreeSet<u64>,
    is_calm: bool,
}

impl World {
    pub fn new(seed: u64, broken: Option<Broken>) -> World {
        let member = |node| Member { node, life: 1 };
        let identity = Identity { maker: member(0), number: 1 };
        let placement = Placement {
            identity,
            owner: 0,
            others: 0,
            bytes: REGION_BYTES,
            wanted: 3,
            epoch: 1,
            primary: member(0),
            backups: vec![member(1), member(2)],
        };
        let node = |number| Node {
            me: member(number),
            is_alive: true,
            replica: None,
            client: Client::new(member(number), placement.clone()),
        };
        let mut world = World {
            random: Random::new(seed),
            broken,
            now: 0,
            events: BTreeMap::new(),
            queue: BinaryHeap::new(),
            drawn: 0,
            nodes: (0..NODES).map(node).collect(),
            lives: 1,
            cuts: BTreeSet::new(),
            record: Record { revision: 0, placement: None },
            calls: Vec::new(),
            removed: BTreeSet::new(),
            open: BTreeMap::new(),
            busy: (0..PROCESSES).map(|it| (it, None)).collect(),
            next_process: PROCESSES,
            next_request: 0,
            asked: BTreeMap::new(),
            over: BTreeSet::new(),
            is_calm: true,
        };
        let mut effects = Vec::new();
        world.nodes[0].replica = Some(Replica::make(placement, RECENT, 0, &mut effects));
        world.carry_out(0, effects);
        world.at(0, Event::Tick);
        world.advance(100 * MS);
        assert!(world.record.placement.is_some(), "the region is made");
        world.is_calm = false;
        world
    }

    /// One action at random, and some time.
    pub fn act(&mut self) {
        let (one, other) = (self.random.below(NODES), self.random.below(NODES));
        match self.random.below(100) {
            0..75 => self.submit(),
            75..79 => drop(self.cuts.insert((one.min(other), one.max(other)))),
            79..87 => self.cuts.clear(),
            87..89 => self.suspect(one as usize),
            89..92 => self.crash(one as usize),
            _ => self.restart(one as usize),
        }
        let more = self.random.below(12 * MS);
        self.advance(self.now + more);
    }

    /// No more faults, and time for everything to end.
    pub fn rest(&mut self) {
        self.is_calm = true;
        self.cuts.clear();
        (0..NODES as usize).for_each(|it| self.restart(it));
        self.advance(self.now + 3000 * MS);
        assert!(self.open.is_empty(), "operations are left behind");
    }

    /// All replicas of the record are alike.
    pub fn check_replicas(&self) -> Result<(), String> {
        let Some(placement) = &self.record.placement else { return Err("no record".into()) };
        let of = |member: &Member| {
            let node = &self.nodes[member.node as usize];
            node.replica.as_ref().filter(|it| node.me == *member && it.placement() == placement)
        };
        let Some(primary) = of(&placement.primary) else {
            let all: Vec<_> =
                self.nodes.iter().map(|it| it.replica.as_ref().map(Replica::describe)).collect();
            return Err(format!("no primary: {placement:?} {all:#?}"));
        };
        if placement.backups.len() != 2 || primary.entries().0 != primary.entries().1 {
            let all: Vec<_> =
                self.nodes.iter().map(|it| it.replica.as_ref().map(Replica::describe)).collect();
            return Err(format!("not all replicas came back: {placement:?} {all:#?}"));
        }
        // The last word that all have it may be on no way any more: what a backup has is looked at.
        let alike = |it: &Member| of(it).is_some_and(|it| it.entries().0 == primary.entries().0);
        match placement.backups.iter().all(alike) {
            true => Ok(()),
            false => Err("a backup lacks entries".into()),
        }
    }

    pub fn history(&self) -> History<OnWord, u64> {
        let all = self.calls.iter().enumerate().filter(|(at, _)| !self.removed.contains(at));
        History::new(all.map(|(_, call)| call.clone()).collect()).unwrap()
    }

    fn submit(&mut self) {
        let idle: Vec<u64> =
            self.busy.iter().filter(|(_, at)| at.is_none()).map(|(it, _)| *it).collect();
        let alive: Vec<usize> =
            (0..self.nodes.len()).filter(|it| self.nodes[*it].is_alive).collect();
        if idle.is_empty() || alive.is_empty() {
            return;
        }
        let process = idle[self.random.below(idle.len() as u64) as usize];
        let node = alive[self.random.below(alive.len() as u64) as usize];
        let (word, value) = (self.random.below(WORDS), self.random.below(4));
        let operation = match self.random.below(6) {
            0 | 1 => WordOperation::Read,
            2 => WordOperation::Write(100 + self.calls.len() as u64),
            3 => WordOperation::CompareSwap(value, value + 1),
            4 => WordOperation::Swap(value),
            _ => WordOperation::FetchAdd(1),
        };
        self.next_request += 1;
        let token = self.next_request;
        self.open.insert(token, Waiting { call: self.calls.len(), process });
        self.busy.insert(process, Some(token));
        let (invoked_ns, operation_on) = (self.stamp(), OnWord { word, operation });
        self.calls.push(Call { process, invoked_ns, responded: None, operation: operation_on });
        let mut effects = Vec::new();
        let until = self.now + 20 * MS + self.random.below(400 * MS);
        let client = &mut self.nodes[node].client;
        client.submit((token, token), action_of(word, operation), until, &mut effects);
        self.carry_out_client(node, effects);
    }

    /// Times that differ, in the order of what happens.
    fn stamp(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn suspect(&mut self, node: usize) {
        let Some(lost) = self.record.placement.as_ref().map(|it| it.primary) else { return };
        let mut effects = Vec::new();
        if let Some(replica) = self.nodes[node].replica.as_mut() {
            replica.lose(lost, &mut effects);
        }
        self.carry_out(node, effects);
    }

    /// A node crashes, if another one of the record is alive.
    fn crash(&mut self, node: usize) {
        let Some(placement) = &self.record.placement else { return };
        let all = placement.backups.iter().chain([&placement.primary]);
        let is_there = |it: &Member| {
            let its = &self.nodes[it.node as usize];
            its.is_alive && its.me == *it && its.replica.is_some()
        };
        let others = all.filter(|it| it.node != node as u64 && is_there(it)).count();
        // What is on its way to the registry may say that the others have nothing any more.
        let is_settled = !self.events.values().any(|it| matches!(it, Event::Propose(..)));
        if others == 0 || !self.nodes[node].is_alive || !is_settled {
            return;
        }
        self.nodes[node].is_alive = false;
        self.nodes[node].replica = None;
        let dead = self.nodes[node].me;
        // Its programs hear nothing any more.
        let its: Vec<u64> = self.nodes[node].client_tokens(&self.open);
        its.into_iter().for_each(|token| self.done(token, Err(Failed::Unknown)));
        for other in 0..self.nodes.len() {
            let mut effects = Vec::new();
            if let Some(replica) = self.nodes[other].replica.as_mut() {
                replica.lose(dead, &mut effects);
            }
            self.carry_out(other, effects);
        }
    }

    fn restart(&mut self, node: usize) {
        if self.nodes[node].is_alive {
            return;
        }
        self.lives += 1;
        let me = Member { node: node as u64, life: self.lives };
        let Some(placement) = self.record.placement.clone() else { return };
        self.nodes[node] =
            Node { me, is_alive: true, replica: None, client: Client::new(me, placement) };
    }

    fn is_joined(&self, one: Member, other: Member) -> bool {
        let its = &self.nodes[other.node as usize];
        its.is_alive && its.me == other && !self.is_cut(one, other)
    }

    fn is_cut(&self, one: Member, other: Member) -> bool {
        self.cuts.contains(&(one.node.min(other.node), one.node.max(other.node)))
    }

    fn at(&mut self, after: u64, event: Event) {
        let key = (self.now + after, self.stamp());
        self.queue.push(Reverse(key));
        self.events.insert(key, event);
    }

    fn advance(&mut self, until: u64) {
        while let Some(Reverse(key)) = self.queue.peek().copied() {
            if key.0 > until {
                break;
            }
            self.queue.pop();
            self.now = key.0;
            if let Some(event) = self.events.remove(&key) {
                self.happen(event);
            }
        }
        self.now = until;
    }

    /// How long a message takes; none where it is lost.
    fn delay(&mut self, one: Member, other: Member) -> Option<u64> {
        let is_lost = self.is_cut(one, other) || (!self.is_calm && self.random.one_in(25));
        let is_slow = !self.is_calm && self.random.one_in(10);
        let most = if is_slow { 60 * MS } else { 3 * MS };
        (!is_lost).then(|| 1 + self.random.below(most))
    }

    fn registry_delay(&mut self) -> Option<u64> {
        let is_lost = !self.is_calm && self.random.one_in(10);
        (!is_lost).then(|| 1 + self.random.below(8 * MS))
    }

    fn living(&mut self, member: Member) -> Option<&mut Node> {
        self.nodes.get_mut(member.node as usize).filter(|it| it.is_alive && it.me == member)
    }

    fn happen(&mut self, event: Event) {
        let mut effects = Vec::new();
        match event {
            Event::Tick => self.tick(),
            Event::Append(to, from, message, append) => {
                let Some(received) = self.take_append(to, from, *append, &mut effects) else {
                    return;
                };
                self.carry_out(to.node as usize, effects);
                if let Some(delay) = self.delay(to, from) {
                    self.at(delay, Event::Received(from, to, message, received));
                }
            }
            Event::Received(to, from, (message, tag), received) => {
                if self.over.insert(message) {
                    if let Some(replica) = self.living(to).and_then(|it| it.replica.as_mut()) {
                        replica.received(from, tag, received, &mut effects);
                    }
                    self.carry_out(to.node as usize, effects);
                }
            }
            Event::AppendLate(to, from, (message, tag)) => {
                if self.over.insert(message) {
                    if let Some(replica) = self.living(to).and_then(|it| it.replica.as_mut()) {
                        replica.not_received(from, tag);
                    }
                }
            }
            Event::Operate(to, from, message, operate) => {
                let number = operate.id.number;
                let Some(node) = self.living(to) else { return };
                let answer = Answer::NotPrimary { may_be_done: false };
                match node.replica.as_mut() {
                    Some(replica) => replica.operate(message, *operate, &mut effects),
                    None => effects.push(Effect::Answer { token: message, answer }),
                }
                self.asked.insert(message, (from, number));
                self.carry_out(to.node as usize, effects);
            }
            Event::Answered(to, number, message, answer) => {
                self.come_back(to, number, message, Ok(answer));
            }
            Event::OperateLate(to, number, message) => {
                self.come_back(to, number, message, Err(Unanswered::Unknown));
            }
            Event::Forget(to, epoch) => {
                if let Some(replica) = self.living(to).and_then(|it| it.replica.as_mut()) {
                    replica.forget(epoch, &mut effects);
                }
                self.carry_out(to.node as usize, effects);
            }
            Event::Propose(who, (attempt, expected), placement) => {
                let outcome = match self.record.revision == expected {
                    true => {
                        let revision = self.record.revision + 1;
                        self.record = Record { revision, placement: placement.map(|it| *it) };
                        Outcome::Accepted(revision)
                    }
                    false => Outcome::Conflict,
                };
                let (outcome, delay) = match self.registry_delay() {
                    Some(delay) => (outcome, delay),
                    None => (Outcome::Unknown, 20 * MS),
                };
                self.at(delay, Event::Proposed(who, attempt, outcome));
            }
            Event::Proposed(who, attempt, outcome) => {
                if let Some(replica) = self.living(who).and_then(|it| it.replica.as_mut()) {
                    replica.proposed(attempt, outcome, &mut effects);
                }
                self.carry_out(who.node as usize, effects);
            }
            Event::Look(who, look) => {
                // The answer is read when it comes: later than it could have been, never earlier.
                let delay = 1 + self.random.below(4 * MS);
                self.at(delay, Event::Looked(who, look));
            }
            Event::Looked(who, look) => self.looked(who, look),
        }
    }

    fn looked(&mut self, who: Member, look: Option<u64>) {
        let (record, is_lost) = (self.record.clone(), !self.is_calm && self.random.one_in(10));
        let Some(node) = self.living(who) else { return };
        let (mut effects, mut of_client) = (Vec::new(), Vec::new());
        match (look, node.replica.as_mut()) {
            (None, _) => {
                let found = if is_lost { Err(()) } else { Ok(record.placement) };
                node.client.looked(found, &mut of_client);
            }
            (Some(look), Some(replica)) if is_lost => replica.not_looked(look),
            (Some(look), Some(replica)) => replica.looked(look, record, &mut effects),
            (Some(_), None) => {}
        }
        self.carry_out(who.node as usize, effects);
        self.carry_out_client(who.node as usize, of_client);
    }

    fn take_append(
        &mut self,
        to: Member,
        from: Member,
        append: Append,
        effects: &mut Vec<Effect>,
    ) -> Option<Received> {
        let instance = self.stamp();
        let node = self.living(to)?;
        if let Some(replica) = node.replica.as_mut() {
            let received = replica.append(from, append.clone(), effects);
            if !replica.is_ended() {
                return Some(received);
            }
            node.replica = None;
            effects.retain(|it| *it != Effect::Ended);
        }
        node.replica = Replica::invited(to, &append, (RECENT, instance));
        let Some(replica) = node.replica.as_mut() else { return Some(Received::Unknown) };
        Some(replica.append(from, append, effects))
    }

    fn tick(&mut self) {
        for at in (0..self.nodes.len()).filter(|it| self.nodes[*it].is_alive).collect::<Vec<_>>() {
            let me = self.nodes[at].me;
            let joined: BTreeSet<Member> =
                self.nodes.iter().map(|it| it.me).filter(|it| self.is_joined(me, *it)).collect();
            let (mut effects, mut of_client, now) = (Vec::new(), Vec::new(), self.now);
            let node = &mut self.nodes[at];
            node.client.tick(now, &mut of_client);
            if let Some(replica) = &mut node.replica {
                replica.tick((now, 500 * MS), |it| joined.contains(&it), &mut effects);
                joined.iter().for_each(|it| replica.invite(*it, &mut effects));
            }
            self.carry_out(at, effects);
            self.carry_out_client(at, of_client);
        }
        self.at(10 * MS, Event::Tick);
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let me = self.nodes[at].me;
        for effect in effects {
            match effect {
                Effect::Append { to, tag, append } => self.send_append(me, to, tag, append),
                Effect::Answer { token, answer } => self.answer(me, token, answer),
                Effect::Propose { attempt, expected, placement } => match self.registry_delay() {
                    Some(delay) => {
                        self.at(delay, Event::Propose(me, (attempt, expected), placement));
                    }
                    None => self.at(20 * MS, Event::Proposed(me, attempt, Outcome::Unknown)),
                },
                Effect::Look(look) => self.at(1, Event::Look(me, Some(look))),
                Effect::Forget { to, epoch } => {
                    if let Some(delay) = self.delay(me, to) {
                        self.at(delay, Event::Forget(to, epoch));
                    }
                }
                Effect::Ended => self.nodes[at].replica = None,
                Effect::Made(..) | Effect::Freed(..) => {}
            }
        }
    }

    fn send_append(&mut self, me: Member, to: Member, tag: Tag, append: Box<Append>) {
        let message = (self.stamp(), tag);
        if self.broken == Some(Broken::AnswersEarly) {
            // Taken for confirmed although it is on its way.
            let end = append.first + append.entries.len() as u64 - 1;
            let have = Received::Have { entry: end, instance: 0, is_confirmed: true };
            let early = (self.stamp(), tag);
            self.at(0, Event::Received(me, to, early, have));
        }
        self.at(40 * MS, Event::AppendLate(me, to, message));
        if let Some(delay) = self.delay(me, to) {
            self.at(delay, Event::Append(to, me, message, append));
        }
    }

    fn answer(&mut self, me: Member, message: u64, answer: Answer) {
        let Some((from, number)) = self.asked.remove(&message) else { return };
        if let Some(delay) = self.delay(me, from) {
            self.at(delay, Event::Answered(from, number, message, answer));
        }
    }

    fn come_back(
        &mut self,
        to: Member,
        number: u64,
        message: u64,
        answer: Result<Answer, Unanswered>,
    ) {
        if !self.over.insert(message) {
            return;
        }
        let mut effects = Vec::new();
        if let Some(node) = self.living(to) {
            node.client.answered(number, answer, &mut effects);
        }
        self.carry_out_client(to.node as usize, effects);
    }

    fn carry_out_client(&mut self, at: usize, effects: Vec<ClientEffect>) {
        let me = self.nodes[at].me;
        for effect in effects {
            match effect {
                ClientEffect::Send { to, operate } => self.send_operate(me, to, operate),
                ClientEffect::Look => self.at(1, Event::Look(me, None)),
                ClientEffect::Done { token, result } => {
                    self.done(token, result);
                }
            }
        }
    }

    fn send_operate(&mut self, me: Member, to: Member, mut operate: Box<Operate>) {
        let (message, number) = (self.stamp(), operate.id.number);
        if self.broken == Some(Broken::NewIdentities) {
            operate.id = RequestId { asker: Member { node: 1000 + message, life: 1 }, number };
        }
        if !self.is_joined(me, to) {
            let mut effects = Vec::new();
            let client = &mut self.nodes[at_of(me)].client;
            client.answered(number, Err(Unanswered::NotSent), &mut effects);
            return self.carry_out_client(at_of(me), effects);
        }
        self.at(80 * MS, Event::OperateLate(me, number, message));
        if let Some(delay) = self.delay(me, to) {
            self.at(delay, Event::Operate(to, me, message, operate));
        }
    }

    fn done(&mut self, token: u64, result: Result<heliostat_service_replica::Answered, Failed>) {
        let Some(Waiting { call, process }) = self.open.remove(&token) else { return };
        let mut is_free = true;
        match result {
            Ok(answered) => {
                let value = match self.calls[call].operation.operation {
                    WordOperation::Read => {
                        u64::from_le_bytes(answered.read.try_into().expect("a word"))
                    }
                    _ => answered.word,
                };
                self.calls[call].responded = Some((self.stamp(), value));
            }
            Err(Failed::NotDone) => drop(self.removed.insert(call)),
            Err(Failed::Unknown) => is_free = false,
            Err(other) => panic!("{other:?}"),
        }
        self.busy.remove(&process);
        // Nobody knows when such a call ends: it is somebody else who goes on.
        let next = if is_free { process } else { self.next_process };
        self.next_process += u64::from(!is_free);
        self.busy.insert(next, None);
    }
}

impl Node {
    fn client_tokens(&self, open: &BTreeMap<u64, Waiting>) -> Vec<u64> {
        open.keys().copied().filter(|token| self.client.has(*token)).collect()
    }
}

fn at_of(member: Member) -> usize {
    member.node as usize
}

fn action_of(word: u64, operation: WordOperation) -> Action {
    let offset = word * 8;
    match operation {
        WordOperation::Read => Action::Read { offset, bytes: 8 },
        WordOperation::Write(value) => {
            Action::Write { offset, bytes: Arc::from(value.to_le_bytes()) }
        }
        WordOperation::FetchAdd(more) => Action::FetchAdd { offset, more },
        WordOperation::CompareSwap(expected, new) => Action::CompareSwap { offset, expected, new },
        WordOperation::Swap(new) => Action::Swap { offset, new },
    }
}

/// The history of one word.
pub fn of_word(calls: Vec<Call<OnWord, u64>>) -> History<WordOperation, u64> {
    let of = |call: Call<OnWord, u64>| Call {
        process: call.process,
        invoked_ns: call.invoked_ns,
        responded: call.responded,
        operation: call.operation.operation,
    };
    History::new(calls.into_iter().map(of).collect()).unwrap()
}
