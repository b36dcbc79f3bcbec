use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{
    Completion, OpKind, Piece, Pieces, COMPLETION_AT, COMPLETION_RECORD_BYTES, OPERATION_BYTES_MAX,
};
use heliostat_abi::memory::page::HEADER_BYTES;
use heliostat_abi::memory::peer::{elsewhere, PeerAnswer, PeerHandle};
use heliostat_backend_uring::By;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{Bell, Events, Gate, Inbox, NewSession, Server};
use heliostat_server_node::{LinkId, NodeId, PeerNode};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

use super::*;
use crate::there::Answer;

const WINDOW_BYTES: u32 = 1 << 20;

/// A loop whose messages to other nodes come here instead, to be answered as a test likes.
struct Loop {
    server: Server<Memories>,
    sent: Receiver<Order<Memories>>,
    sides: Vec<Side>,
}

/// A session's ends of its rings.
struct Side {
    submissions: SpscProducer,
    completions: SpscConsumer,
    _rings: OwnedFd,
}

fn id(index: usize) -> ObjectId {
    ObjectId { index: index as u32, generation: 1 }
}

fn there(link: u64) -> There {
    let peer = PeerNode { node: NodeId(link), incarnation: 1, link: LinkId(link) };
    There { peer, handle: PeerHandle::default() }
}

fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

impl Loop {
    /// With so many sessions, each of which has a handle on nodes 1, 2 and 3.
    fn new(sessions: usize) -> Loop {
        let (events, orders, (sender, sent)) = (channel().0, channel().1, channel());
        let events = Events::new(events, bell());
        let page = SharedMapping::create(c"regions", HEADER_BYTES + 4096).unwrap().1;
        let mut service = Memories::new(Arc::new(page), events.clone());
        service.gates = Arc::from([Gate::new(sender, Bell::create().unwrap())]);
        let engine =
            Engine::create(0, service, Arc::default(), Arc::default(), events, By::available());
        let inbox = Inbox { orders, bell: Bell::create().unwrap(), spin_ns: 0, spin_flying_ns: 0 };
        let server = Server::new(engine.unwrap(), inbox);
        let mut one = Loop { server, sent, sides: Vec::new() };
        (0..sessions).for_each(|number| one.begin(number));
        one
    }

    fn begin(&mut self, number: usize) {
        let window = SharedMapping::create(c"window", WINDOW_BYTES as usize).unwrap().1;
        let (rings, link) = NewSession::create(Arc::new(window), Meter::default(), 1, 0).unwrap();
        self.server.carry_out(Order::Begin(id(number), Box::new(link)));
        for link in 1..=3 {
            let (session, handle) = (id(number), elsewhere(id(link)));
            let order = MemoryOrder::HoldThere { session, handle, there: there(link as u64) };
            self.server.carry_out(Order::Service(order));
        }
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        self.sides.push(Side {
            submissions: attach(0).spsc_producer(Refresh::Lazy).unwrap(),
            completions: attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap(),
            _rings: rings,
        });
    }

    fn sweep(&mut self) {
        for _ in 0..16 {
            self.server.sweep();
        }
    }

    /// A session reads so many bytes of a node.
    fn read(&mut self, number: usize, link: usize, bytes: u32) {
        let pieces = Pieces::new(&[Piece { offset: 0, bytes }]).unwrap();
        let (kind, object) = (OpKind::Read, elsewhere(id(link)));
        let asked =
            Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument: 0, pieces };
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        self.sides[number].submissions.push(&record[..length]).unwrap();
        self.sweep();
    }

    fn end(&mut self, number: usize) {
        self.server.carry_out(Order::End(id(number)));
    }

    /// What was sent since the last time.
    fn sent(&mut self) -> Vec<Answered> {
        let orders = std::iter::from_fn(|| self.sent.try_recv().ok());
        let answered = orders.map(|order| match order {
            Order::Service(MemoryOrder::Answered(answered)) => *answered,
            _ => panic!("another order"),
        });
        answered.collect()
    }

    fn answer(&mut self, sent: Answered, answer: Answer) {
        let answered = Box::new(Answered { answer, ..sent });
        self.server.carry_out(Order::Service(MemoryOrder::Answered(answered)));
    }

    /// Looks at the clock until something is sent.
    fn sent_in_time(&mut self) -> Vec<Answered> {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            let sent = self.sent();
            if !sent.is_empty() {
                return sent;
            }
            self.server.sweep();
        }
        panic!("nothing is sent any more");
    }

    /// The results that a session has got since the last time.
    fn results(&mut self, number: usize) -> Vec<i64> {
        self.sweep();
        let mut record = [0; COMPLETION_RECORD_BYTES];
        let completions = &mut self.sides[number].completions;
        let next = || completions.pop(&mut record).ok().map(|_| Completion::decode(&record));
        std::iter::from_fn(next).map(|completion| completion.unwrap().result).collect()
    }
}

fn whole(sent: &Answered) -> Answer {
    Ok((PeerAnswer::done(sent.part.bytes), vec![1; sent.part.bytes as usize]))
}

#[test]
fn a_node_that_answers_nothing_keeps_only_its_own_waiting_and_who_ends_keeps_nobody() {
    let mut one = Loop::new(24);
    (0..9).for_each(|_| one.read(0, 1, WINDOW_BYTES));
    let mut first = one.sent();
    assert!(first.iter().all(|sent| sent.session == id(0)) && first.len() > 30);
    one.read(22, 1, 8);
    assert_eq!(one.sent().len(), 1, "a short one fits");
    (1..22).for_each(|number| one.read(number, 1, WINDOW_BYTES));
    one.read(22, 1, 8);
    assert_eq!(one.sent().len(), 0, "and is not before those that wait");
    one.read(23, 1, WINDOW_BYTES);
    one.read(23, 2, 8);
    assert_eq!(one.sent()[0].way.link, LinkId(2), "another node has its own share");
    (1..23).for_each(|number| one.end(number));
    let answered = first.remove(0);
    let answer = whole(&answered);
    one.answer(answered, answer);
    let next = one.sent();
    assert_eq!(next[0].session, id(23), "who waited longest of those that are there");
}

#[test]
fn what_the_nodes_thread_has_no_room_for_is_tried_again_in_time_and_does_not_fail() {
    let mut one = Loop::new(2);
    one.read(0, 1, 8);
    let mut sent = one.sent();
    for _ in 0..3 {
        one.answer(sent.remove(0), Err(NoAnswer::Full));
        assert!(one.sent().is_empty(), "not at once");
        sent = one.sent_in_time();
    }
    one.answer(sent.remove(0), Err(NoAnswer::Full));
    one.read(1, 1, 8);
    one.end(0);
    let sent = one.sent_in_time().remove(0);
    assert_eq!(sent.session, id(1), "it was not the ended one's to wake the loop");
    let answer = whole(&sent);
    one.answer(sent, answer);
    assert_eq!(one.results(1), [8]);
}

#[test]
fn every_operation_ends_in_whatever_order_answers_come_and_sessions_end() {
    for seed in 0..8u64 {
        let (mut one, mut random) = (Loop::new(4), seed);
        let mut draw = |most: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % most
        };
        let mut asked = [0; 4];
        for _ in 0..60 {
            let number = draw(4);
            one.read(number, 1 + draw(3), [8, 300_000, WINDOW_BYTES][draw(3)]);
            asked[number] += 1;
        }
        let (mut sent, mut count) = (one.sent(), 0);
        while !sent.is_empty() {
            let next = sent.swap_remove(draw(sent.len()));
            let answer = if draw(8) == 0 { Err(NoAnswer::Full) } else { whole(&next) };
            one.answer(next, answer);
            count += 1;
            if count == 40 {
                one.end(3);
            }
            sent.extend(one.sent());
            if sent.is_empty() {
                let until = Instant::now() + Duration::from_millis(20);
                while Instant::now() < until {
                    one.server.sweep();
                }
                sent.extend(one.sent());
            }
        }
        for (number, asked) in asked.iter().take(3).enumerate() {
            let results = one.results(number);
            assert_eq!(results.len(), *asked, "seed {seed}");
            assert!(results.iter().all(|result| *result > 0));
            one.read(number, 1, 8);
            let again = one.sent().remove(0);
            let answer = whole(&again);
            one.answer(again, answer);
            assert_eq!(one.results(number), [8], "seed {seed}: nobody waits any more");
        }
    }
}
