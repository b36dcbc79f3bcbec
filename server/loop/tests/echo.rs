//! The smallest service that a loop can have: one operation, on objects of its own.
//!
//! It shows what a service has to bring, and that it brings it from outside of this crate.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use heliostat_abi::file::delegated::joint::{
    all_of, completion_at, depth, tag_of, MEMBERS_AT, MEMBERS_BYTES,
};
use heliostat_abi::file::delegated::{
    call_words, CallWords, Completion, MoreWords, OpKind, Operation, Piece, Pieces, Way, CALL_AT,
    CALL_BYTES, CALL_DECLINED, COMPLETION_AT, COMPLETION_RECORD_BYTES, DEPTH_MAX,
    OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::By;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_ring::call_line::Asker;
use heliostat_ring::members::MembersPage;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{
    Bell, Engine, Event, Events, Inbox, NewSession, Object, Order, Parts, Server, Service,
    Sessions, Step, Turn, COST_MIN,
};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

const SESSION: ObjectId = ObjectId { index: 3, generation: 1 };

/// Writes the bytes of an operation's first piece into its second.
#[derive(Default)]
struct Echo {
    /// How often there is no room for it.
    full: u32,
}

/// What an asker has open: how often it was asked.
#[derive(Default)]
struct Well {
    asked: u64,
}

impl Object for Well {}

impl Parts for Echo {
    type Object = Well;
    type PerSession = ();
    type Request = ();
    /// A session opens a well; the completion with the tag tells its index.
    type Order = (ObjectId, u64);
    /// A session has closed a well that was asked so often.
    type Event = (ObjectId, u64);
}

impl Service for Echo {
    fn serve(turn: &mut Turn<'_, Echo>) -> Step {
        if let Some(less) = turn.engine.service.full.checked_sub(1) {
            turn.engine.service.full = less;
            return Step::Blocked;
        }
        *turn.left -= COST_MIN;
        let Some(entry) = turn.entry() else { return Step::Over };
        let operation = entry.operation;
        let Some(well) = turn.session.objects.get_mut(operation.object) else {
            return turn.fail(libc::EBADF);
        };
        let (OpKind::Write, [from, to]) = (operation.kind, operation.pieces.as_slice()) else {
            return turn.fail(libc::EOPNOTSUPP);
        };
        well.asked += 1;
        let mut bytes = vec![0; from.bytes.min(to.bytes) as usize];
        let window = &turn.session.window;
        let copied = window
            .copy_out(from.offset as usize, &mut bytes)
            .and_then(|()| window.copy_in(to.offset as usize, &bytes));
        match copied {
            Ok(()) => turn.end(bytes.len() as i64),
            Err(_) => turn.fail(libc::EFAULT),
        }
    }

    fn close(engine: &mut Engine<Echo>, session: ObjectId, well: Well) {
        engine.tell((session, well.asked));
    }

    fn carry_out(sessions: &mut Sessions<Echo>, (id, tag): (ObjectId, u64)) {
        let Some((session, _)) = sessions.session(id) else { return };
        let (result, generation) = match session.objects.insert(Well::default()) {
            Ok(id) => (i64::from(id.index), id.generation),
            Err(_) => (-i64::from(libc::EMFILE), 0),
        };
        session.complete(Completion { tag, result, generation, way: Way::None });
    }

    fn completed(_: &mut Sessions<Echo>, (): (), _: i32) {}
}

/// A loop, a session's ends of its rings, and what the control plane hears.
struct One {
    server: Server<Echo>,
    window: Arc<SharedMapping>,
    submissions: SpscProducer,
    completions: SpscConsumer,
    rings: OwnedFd,
    events: Receiver<Event<Echo>>,
    orders: Sender<Order<Echo>>,
}

fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

impl One {
    fn new() -> One {
        One::of(0)
    }

    /// A session that so many members submit on.
    fn of(members: u32) -> One {
        One::with(members, Meter::default(), Echo::default())
    }

    fn with(members: u32, meter: Meter, echo: Echo) -> One {
        let (gate, orders) = channel();
        let (sender, events) = channel();
        let engine = Engine::create(
            0,
            echo,
            Arc::default(),
            Arc::default(),
            Events::new(sender, bell()),
            By::available(),
        );
        let inbox = Inbox { orders, bell: Bell::create().unwrap(), spin_ns: 0, spin_flying_ns: 0 };
        let mut server = Server::new(engine.unwrap(), inbox);
        let (_fd, window) = SharedMapping::create(c"window", 4096).unwrap();
        let window = Arc::new(window);
        let (rings, new) = NewSession::create(window.clone(), meter, 1, members).unwrap();
        server.carry_out(Order::Begin(SESSION, Box::new(new)));
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        One { server, window, submissions, completions, rings, events, orders: gate }
    }

    fn next(&mut self) -> Completion {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        for _ in 0..100_000 {
            self.server.sweep();
            if self.completions.pop(&mut record).is_ok() {
                return Completion::decode(&record).unwrap();
            }
        }
        panic!("nothing was completed");
    }

    fn open(&mut self) -> ObjectId {
        self.server.carry_out(Order::Service((SESSION, 5)));
        let Completion { tag: 5, result, generation, .. } = self.next() else { panic!() };
        ObjectId { index: u32::try_from(result).unwrap(), generation }
    }

    /// Asks for an echo of the window's first bytes behind them.
    fn ask(&mut self, object: ObjectId, kind: OpKind) -> Completion {
        self.submit(object, kind, 7);
        self.next()
    }

    fn submit(&mut self, object: ObjectId, kind: OpKind, tag: u64) {
        let piece = |offset| Piece { offset, bytes: 5 };
        let pieces = Pieces::new(&[piece(0), piece(100)]).unwrap();
        let (offset, timeout_us, argument) = (0, 0, 0);
        self.give(&Operation { kind, object, offset, tag, timeout_us, argument, pieces });
    }

    fn cancel(&mut self, argument: u64, tag: u64) {
        let (kind, object, pieces) = (OpKind::Cancel, ObjectId::default(), Pieces::default());
        let (offset, timeout_us) = (0, 0);
        self.give(&Operation { kind, object, offset, tag, timeout_us, argument, pieces });
    }

    fn give(&mut self, asked: &Operation) {
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        self.submissions.push(&record[..length]).unwrap();
    }
}

#[test]
fn an_operation_of_an_own_object_is_carried_out_by_its_service() {
    let mut one = One::new();
    one.window.copy_in(0, b"hello").unwrap();
    let well = one.open();
    assert_eq!((one.ask(well, OpKind::Write).tag, one.ask(well, OpKind::Write).result), (7, 5));
    let mut echoed = [0; 5];
    one.window.copy_out(100, &mut echoed).unwrap();
    assert_eq!(&echoed, b"hello");
}

#[test]
fn what_the_service_does_not_know_is_refused_and_the_next_is_served() {
    let mut one = One::new();
    let well = one.open();
    let refused = |errno| -i64::from(errno);
    assert_eq!(one.ask(well, OpKind::Read).result, refused(libc::EOPNOTSUPP));
    let gone = ObjectId { generation: well.generation + 1, ..well };
    assert_eq!(one.ask(gone, OpKind::Write).result, refused(libc::EBADF));
    assert_eq!(one.ask(well, OpKind::Write).result, 5);
}

/// Orders are looked for in one sweep of several, and before whatever has come meanwhile.
#[test]
fn what_was_ordered_before_an_operation_is_done_before_it() {
    let mut one = One::new();
    let first = one.open();
    for number in 1..=20 {
        let next = ObjectId { index: first.index + number, ..first };
        one.orders.send(Order::Service((SESSION, 5))).unwrap();
        one.submit(next, OpKind::Write, 7);
        assert_eq!((one.next().tag, one.next().result), (5, 5), "well {number}");
        one.server.sweep();
    }
}

/// By its rate another one had to wait for ten seconds.
#[test]
fn an_operation_that_is_tried_again_is_paid_for_once() {
    let mut one = One::with(0, Meter::new(0, 1), Echo { full: 20 });
    let well = one.open();
    assert_eq!(one.ask(well, OpKind::Write).result, 5);
}

#[test]
fn a_session_that_breaks_the_protocol_is_told_of_once_and_not_listened_to() {
    let mut one = One::new();
    let well = one.open();
    (0..40).for_each(|_| one.submissions.push(b"odd").unwrap());
    (0..1000).for_each(|_| _ = one.server.sweep());
    let Ok(Event::Broken(SESSION, _)) = one.events.try_recv() else { panic!("not told") };
    assert!(one.events.try_recv().is_err(), "told twice");
    one.server.carry_out(Order::End(SESSION));
    let Ok(Event::Service((SESSION, 0))) = one.events.try_recv() else { panic!("kept {well:?}") };
}

#[test]
fn objects_of_a_session_that_ends_go_back_to_the_control_plane() {
    let mut one = One::new();
    let well = one.open();
    one.ask(well, OpKind::Write);
    one.server.carry_out(Order::End(SESSION));
    let Ok(Event::Service((SESSION, 1))) = one.events.try_recv() else { panic!("not told") };
}

#[test]
fn what_a_member_of_a_joint_session_asks_is_answered_in_its_own_ring() {
    let mut one = One::of(3);
    let well = one.open();
    let memory = RingMemory::attach(one.rings.as_raw_fd(), completion_at(2)).unwrap();
    let mut others = memory.spsc_consumer(Refresh::Lazy).unwrap();
    one.submit(well, OpKind::Write, tag_of(2, 8));
    let mut record = [0; COMPLETION_RECORD_BYTES];
    while others.pop(&mut record).is_err() {
        one.server.sweep();
    }
    let found = Completion::decode(&record).unwrap();
    assert_eq!((found.tag, found.result), (tag_of(2, 8), 5));
    assert!(one.completions.take().is_err(), "the first has nothing of it");
    assert_eq!(one.ask(well, OpKind::Write).result, 5);
}

/// Who gets the number of a dead member asks so until nothing of it is left.
#[test]
fn all_of_a_member_is_cancelled_and_what_still_goes_on_is_counted() {
    let full = Echo { full: u32::MAX };
    let mut one = One::with(3, Meter::default(), full);
    let well = one.open();
    let memory = RingMemory::attach(one.rings.as_raw_fd(), completion_at(2)).unwrap();
    let mut others = memory.spsc_consumer(Refresh::Lazy).unwrap();
    for own in [8, 9] {
        one.submit(well, OpKind::Write, tag_of(2, own));
    }
    one.submit(well, OpKind::Write, tag_of(1, 8));
    one.cancel(all_of(2), tag_of(2, 1));
    for _ in 0..100 {
        one.server.sweep();
    }
    let mut found = Vec::new();
    let mut record = [0; COMPLETION_RECORD_BYTES];
    while others.pop(&mut record).is_ok() {
        let Completion { tag, result, .. } = Completion::decode(&record).unwrap();
        found.push((tag, result));
    }
    let cancelled = -i64::from(libc::ECANCELED);
    let wanted = [(tag_of(2, 8), cancelled), (tag_of(2, 9), cancelled), (tag_of(2, 1), 0)];
    assert_eq!(found, wanted);
}

#[test]
fn a_tag_of_no_member_ends_the_session() {
    let mut one = One::of(3);
    let well = one.open();
    one.submit(well, OpKind::Write, tag_of(3, 8));
    while one.server.sweep() {}
    let Ok(Event::Broken(SESSION, _)) = one.events.try_recv() else { panic!("not told") };
}

#[test]
fn a_member_that_takes_nothing_keeps_what_fits_and_no_other_waits() {
    let mut one = One::of(2);
    let well = one.open();
    for _ in 0..depth(2) {
        one.submit(well, OpKind::Write, tag_of(1, 8));
    }
    assert_eq!(one.ask(well, OpKind::Write).result, 5, "the other is served");
    for round in 0..2 * DEPTH_MAX as u64 {
        one.submit(well, OpKind::Write, tag_of(1, round));
        one.server.sweep();
    }
    let Ok(Event::Broken(SESSION, _)) = one.events.try_recv() else { panic!("not told") };
}

#[test]
fn members_of_a_joint_session_are_told_of_its_end() {
    let mut one = One::of(2);
    let page =
        SharedMapping::map(one.rings.as_raw_fd(), MEMBERS_AT, MEMBERS_BYTES, Access::ReadWrite);
    let page = MembersPage::attach(page.unwrap()).unwrap();
    assert_eq!((page.count(), page.window_bytes(), page.is_over()), (2, 4096, false));
    one.server.carry_out(Order::End(SESSION));
    assert!(page.is_over());
}

/// The asking end of a session's call.
fn caller(one: &One) -> Asker {
    let page =
        SharedMapping::map(one.rings.as_raw_fd(), CALL_AT, CALL_BYTES, Access::ReadWrite).unwrap();
    Asker::new(page)
}

fn call(one: &mut One, asker: &mut Asker, words: CallWords, more: MoreWords) -> i64 {
    asker.ask_more(words, more);
    for _ in 0..100_000 {
        one.server.sweep();
        if let Some(answer) = asker.take() {
            return answer;
        }
    }
    panic!("nothing was answered");
}

#[test]
fn the_same_operation_is_answered_as_a_call_and_the_service_knows_nothing_of_it() {
    let mut one = One::new();
    one.window.copy_in(0, b"hello").unwrap();
    let well = one.open();
    let mut asker = caller(&one);
    let pieces = Pieces::new(&[Piece { offset: 0, bytes: 5 }, Piece { offset: 200, bytes: 5 }]);
    let (offset, tag, timeout_us, argument) = (0, 0, 0, 0);
    let asked = Operation {
        kind: OpKind::Write,
        object: well,
        offset,
        tag,
        timeout_us,
        argument,
        pieces: pieces.unwrap(),
    };
    let (words, more) = call_words(&asked).unwrap();
    assert_eq!([0; 3].map(|_| call(&mut one, &mut asker, words, more)), [5; 3]);
    let mut echoed = [0; 5];
    one.window.copy_out(200, &mut echoed).unwrap();
    assert_eq!(&echoed, b"hello");
    assert!(one.completions.take().is_err(), "a call has no completion");
    // What it does not know, what is no operation, and what only reads are asked as.
    let (unknown, more_of_it) = call_words(&Operation { kind: OpKind::Append, ..asked }).unwrap();
    let refused = |errno: i32| -i64::from(errno);
    assert_eq!(call(&mut one, &mut asker, unknown, more_of_it), refused(libc::EOPNOTSUPP));
    let opens = [words[0], words[1], words[2], 1 << 40 | (OpKind::Open as u64) << 32 | 5];
    assert_eq!(call(&mut one, &mut asker, opens, [1, 0, 0]), refused(libc::EINVAL));
    assert_eq!(call(&mut one, &mut asker, [words[0], 0, 0, 5], more), CALL_DECLINED);
    assert_eq!(one.ask(well, OpKind::Write).result, 5, "the rings serve as before");
    assert_eq!(call(&mut one, &mut asker, words, more), 5);
}
