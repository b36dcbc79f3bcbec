//! Some nodes with a replica or none each, their clients, a registry, and what lies between them.

mod carry;
mod happen;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use heliostat_service_replica::{
    Action, Answer, Append, Client, Failed, Identity, Member, Operate, Outcome, Placement,
    Received, Record, Replica,
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
            appointed: Vec::new(),
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
