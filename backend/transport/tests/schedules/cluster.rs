//! Three nodes of a simulated network that call each other, and the faults between them.

use std::collections::BTreeMap;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::{Identity, NodeId, Secret};
use heliostat_backend_transport::limits::{NodeLimits, MESSAGE_COST_BYTES};
use heliostat_backend_transport::node::{Node, NodeEvent, ReplyFailure};
use heliostat_backend_transport::simulated::{Network, Random, Simulated, Weather};
use heliostat_backend_transport::transport::LinkId;
use heliostat_backend_transport::AskId;

use crate::ledger::{answer_to, payload_of, Caller, Ledger, RequestId};

const NODES: usize = 3;
const MS: u64 = 1_000_000;
/// Narrow, so that it is full now and then.
const WINDOW_BYTES: u64 = 32 << 10;
const STORM: Weather =
    Weather { delay_ns_min: MS / 10, delay_ns_max: 5 * MS, break_one_in: 150, full_one_in: 60 };
const CALM: Weather = Weather { break_one_in: 0, full_one_in: 0, ..STORM };

#[derive(Clone, Copy)]
struct Open {
    ask: AskId,
    request: RequestId,
    bytes: usize,
}

struct Member {
    node: Node<Simulated>,
    life: u64,
    /// What is asked and not answered yet.
    open: Vec<Open>,
    calls: Vec<CallId>,
    /// Whom it tries to join.
    joining: BTreeMap<LinkId, usize>,
}

pub struct Cluster {
    network: Network,
    random: Random,
    now_ns: u64,
    members: Vec<Option<Member>>,
    lives: u64,
    pub ledger: Ledger,
}

impl Cluster {
    pub fn new(seed: u64) -> Cluster {
        let mut cluster = Cluster {
            network: Network::new(seed ^ 0x5eed, STORM),
            random: Random::new(seed),
            now_ns: 0,
            members: (0..NODES).map(|_| None).collect(),
            lives: 0,
            ledger: Ledger::default(),
        };
        (0..NODES).for_each(|number| cluster.restart(number));
        cluster
    }

    /// One action at random, and some time.
    pub fn act(&mut self) {
        let (one, other) = self.draw_pair();
        match self.random.below(100) {
            0..60 => self.call(one, other),
            60..70 => self.withdraw(one),
            70..75 => self.network.cut(one as u32, other as u32),
            75..85 => self.heal_all(),
            85..87 => self.network.break_link(one as u32, other as u32),
            87..89 => self.crash(one),
            89..97 => self.restart_dead(),
            _ => self.leave(one, other),
        }
        let until_ns = self.now_ns + self.random.between(0, 40 * MS);
        self.advance(until_ns);
    }

    /// No more faults, and time for everything to end.
    pub fn rest(&mut self) {
        self.network.set_weather(CALM);
        self.heal_all();
        self.restart_dead();
        self.advance(self.now_ns + 8_000 * MS);
        for member in self.members.iter().flatten() {
            assert_eq!(member.node.waiting(), (0, 0), "calls or asks are left behind");
            assert_eq!(member.node.joined().count(), NODES - 1, "{} is alone", member.node.node());
        }
    }

    /// Whatever happened before, each window still takes the largest messages that fit, there and back.
    pub fn check_windows(&mut self) {
        let bytes = (WINDOW_BYTES / 2 - MESSAGE_COST_BYTES) as usize - 8;
        let too_late = self.ledger.too_late();
        for _ in 0..3 {
            for (one, other) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
                self.call_with(one, other, bytes, 1_000 * MS, false);
                self.call_with(one, other, bytes, 1_000 * MS, false);
            }
            let waiting: usize =
                self.members.iter().flatten().map(|member| member.node.waiting().0).sum();
            assert_eq!(waiting, 12, "a window for requests leaks");
            self.advance(self.now_ns + 2_000 * MS);
        }
        assert_eq!(self.ledger.too_late(), too_late, "a window for replies leaks");
    }

    fn draw_pair(&mut self) -> (usize, usize) {
        let one = self.random.below(NODES as u64) as usize;
        let other = (one + 1 + self.random.below(NODES as u64 - 1) as usize) % NODES;
        (one, other)
    }

    fn call(&mut self, one: usize, other: usize) {
        let bytes = self.random.below(12 << 10) as usize;
        let patience_ns = self.random.between(1, 400 * MS);
        let is_post = self.random.happens(4);
        self.call_with(one, other, bytes, patience_ns, is_post);
    }

    fn call_with(
        &mut self,
        one: usize,
        other: usize,
        bytes: usize,
        patience_ns: u64,
        is_post: bool,
    ) {
        let Some(member) = &mut self.members[one] else { return };
        let Some(link) = member.node.link_to(NodeId(other as u64)) else { return };
        let request = self.ledger.next_request();
        let deadline_ns = self.now_ns + patience_ns;
        let payload = payload_of(request, bytes);
        let header = request.to_le_bytes();
        let begun = if is_post {
            member.node.post(self.now_ns, link, &header, payload, deadline_ns)
        } else {
            member.node.call(self.now_ns, link, &header, payload, deadline_ns)
        };
        match begun {
            Ok(call) => {
                member.calls.push(call);
                self.ledger.begin((one, member.life), call, request, deadline_ns, is_post);
            }
            Err(refused) => self.ledger.not_begun(request, refused.error),
        }
    }

    fn withdraw(&mut self, one: usize) {
        let drawn = self.random.draw() as usize;
        let Some(member) = &mut self.members[one] else { return };
        if let Some(call) = drawn.checked_rem(member.calls.len()).map(|at| member.calls[at]) {
            member.node.withdraw(self.now_ns, call);
        }
    }

    fn leave(&mut self, one: usize, other: usize) {
        let Some(member) = &mut self.members[one] else { return };
        if let Some(link) = member.node.link_to(NodeId(other as u64)) {
            member.node.leave(self.now_ns, link);
        }
    }

    fn crash(&mut self, number: usize) {
        if let Some(member) = self.members[number].take() {
            self.ledger.caller_died((number, member.life));
            self.network.crash(number as u32);
        }
    }

    fn heal_all(&mut self) {
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            self.network.heal(one, other);
        }
    }

    fn restart_dead(&mut self) {
        for number in 0..NODES {
            if self.members[number].is_none() {
                self.restart(number);
            }
        }
    }

    fn restart(&mut self, number: usize) {
        self.lives += 1;
        let life = self.lives;
        let me = Identity {
            node: NodeId(number as u64),
            incarnation: life,
            secret: Secret::new([1; 32]),
        };
        let limits =
            NodeLimits { window_bytes: WINDOW_BYTES, calls_max: 64, ..NodeLimits::default() };
        let seed = std::array::from_fn(|_| self.random.draw() as u8);
        let node = Node::new(self.network.start(number as u32), me, limits, seed);
        self.members[number] = Some(Member {
            node,
            life,
            open: Vec::new(),
            calls: Vec::new(),
            joining: BTreeMap::new(),
        });
        for other in (0..NODES).filter(|other| *other != number) {
            self.join(number, other);
        }
    }

    /// Joins a node unless that is so, or under way.
    fn join(&mut self, one: usize, other: usize) {
        let Some(member) = &mut self.members[one] else { return };
        let is_under_way = member.joining.values().any(|node| *node == other);
        if is_under_way || member.node.link_to(NodeId(other as u64)).is_some() {
            return;
        }
        let wanted = Some(NodeId(other as u64));
        let deadline_ns = self.now_ns + 500 * MS;
        let begun =
            member.node.join(self.now_ns, Address::Simulated(other as u32), wanted, deadline_ns);
        member.joining.insert(begun.expect("few links"), other);
    }

    /// Moves time from one thing that is due to the next.
    fn advance(&mut self, until_ns: u64) {
        loop {
            self.network.advance(self.now_ns);
            for number in 0..NODES {
                self.progress(number);
            }
            let wakes = self.members.iter().flatten().filter_map(|member| member.node.wake_ns());
            match wakes.chain(self.network.next_ns()).min() {
                Some(next_ns) if next_ns <= until_ns => {
                    assert!(next_ns > self.now_ns, "something is due and does not happen");
                    self.now_ns = next_ns;
                }
                _ => break,
            }
        }
        self.now_ns = until_ns;
    }

    fn progress(&mut self, number: usize) {
        loop {
            let mut events = Vec::new();
            let Some(member) = &mut self.members[number] else { return };
            member
                .node
                .progress(self.now_ns, &mut events)
                .expect("a simulated network never breaks");
            self.answer_some(number);
            if events.is_empty() {
                return;
            }
            events.into_iter().for_each(|event| self.take(number, event));
        }
    }

    fn take(&mut self, number: usize, event: NodeEvent) {
        let Some(member) = &mut self.members[number] else { return };
        let caller: Caller = (number, member.life);
        match event {
            NodeEvent::Request { ask, header, payload, wants_reply, .. } => {
                let request =
                    RequestId::from_le_bytes(header.try_into().expect("a request's number"));
                if !wants_reply {
                    self.ledger.do_request(request, &payload);
                    // Void if the peer is lost by now.
                    member.node.release(self.now_ns, ask);
                } else if self.random.happens(8) && member.node.refuse(self.now_ns, ask).is_ok() {
                    // Refused, and not done.
                } else {
                    self.ledger.do_request(request, &payload);
                    member.open.push(Open { ask, request, bytes: payload.len() });
                }
            }
            NodeEvent::Answered { call, payload, .. } => {
                self.ledger.answer(self.now_ns, caller, call, &payload);
            }
            NodeEvent::Failed { call, error } => self.ledger.fail(self.now_ns, caller, call, error),
            NodeEvent::Posted { call } => self.ledger.posted(self.now_ns, caller, call),
            NodeEvent::Lost { node, .. } => self.join(number, node.0 as usize),
            NodeEvent::NotJoined { link, .. } => {
                let other = member.joining.remove(&link).expect("it was begun here");
                self.join(number, other);
            }
            NodeEvent::Joined { link, .. } => {
                member.joining.remove(&link);
            }
            NodeEvent::Room { .. } | NodeEvent::Withdrawn { .. } => {}
        }
    }

    /// Answers what is open, some of it now and some later.
    fn answer_some(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let mut left = Vec::new();
        for open in std::mem::take(&mut member.open) {
            if self.random.happens(3) {
                left.push(open);
                continue;
            }
            match member.node.reply(self.now_ns, open.ask, &[], answer_to(open.request, open.bytes))
            {
                Ok(()) => {}
                Err(not_replied) if not_replied.why == ReplyFailure::NoAsk => {}
                Err(not_replied) => {
                    assert_eq!(not_replied.why, ReplyFailure::Full);
                    left.push(open);
                }
            }
        }
        member.open = left;
    }
}
