//! A node to which a region moves and that lies: the region stays, or is in doubt until that node says
//! which, and nobody reads anything else than its bytes.

use std::time::{Duration, Instant};

use crate::support::cluster::{nodes, SecretFile};
use crate::support::liar::{AskedOfLiar, Liar};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon, WATCHDOG};
use heliostat_abi::code::Code;
use heliostat_abi::memory::peer::{
    PeerAction, PeerAnswer, PeerControl, PeerHandle, PeerOperation, PeerRefusal, PeerReply,
};
use heliostat_abi::memory::request::SERVICE;
use heliostat_abi::memory::{Granted, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Bound;
use heliostat_server_node::AskId;

const DIGITS: &str = "5b";
const LIAR: u64 = 77;
const BYTES: u64 = 600_000;

/// What the daemon asks of the node that lies.
enum Asked {
    Control(AskId, MemoryRequest),
    Operation(AskId, PeerOperation),
}

/// A node of our own making, joined to the daemon, to which a region is moved.
struct Target(Liar);

const SESSION: ObjectId = ObjectId { index: 5, generation: 1 };
const HANDLE: ObjectId = ObjectId { index: 6, generation: 1 };
const REGION: ObjectId = ObjectId { index: 7, generation: 1 };

/// The answer that a node gives which has made a place.
fn granted(region: ObjectId, bytes: u64) -> PeerReply {
    let granted = Granted {
        handle: HANDLE,
        region,
        bytes,
        rights: Rights::ALL,
        epoch: 1,
        direct: false,
        lasting: false,
        node: None,
        from: 0,
        pieces_all: 0,
        pieces: Vec::new(),
    };
    let reply = Box::new(MemoryReply::Granted(granted).encode());
    PeerReply::Own { session: SESSION, reply }
}

fn refusal(code: Code) -> PeerReply {
    PeerReply::Refused { code, limit: 0, bound: Bound::NONE }
}

impl Target {
    fn join(daemon: &Daemon, incarnation: u64) -> Target {
        Target(Liar::join_in_life(daemon, LIAR, DIGITS, SERVICE, incarnation))
    }

    /// What the daemon asks next, within a time.
    fn asked_within(&self, time: Duration) -> Option<Asked> {
        let AskedOfLiar { ask, header, payload } = self.0.asked_within(time)?;
        if let Ok(operation) = PeerOperation::decode(&header, payload.len()) {
            return Some(Asked::Operation(ask, operation));
        }
        Some(Asked::Control(ask, PeerControl::decode(&header).unwrap().request))
    }

    fn asked(&self) -> Asked {
        self.asked_within(WATCHDOG).expect("it is asked")
    }

    fn reply(&self, ask: AskId, reply: &PeerReply) {
        self.0.answer_control(ask, reply);
    }

    fn done(&self, ask: AskId, result: Result<u64, PeerRefusal>) {
        let answer = PeerAnswer { result, word: 0 };
        self.0.answer(ask, &answer.encode(), &[]);
    }

    /// Makes the place that it is asked for.
    fn stage(&self) {
        let Asked::Control(ask, MemoryRequest::Stage(wanted)) = self.asked() else {
            panic!("no place is asked for")
        };
        assert_eq!(wanted.bytes, BYTES);
        self.reply(ask, &granted(REGION, BYTES));
    }

    /// Takes bytes, as a node that keeps its word, until it is asked to adopt the region.
    fn take_all(&self) -> AskId {
        let mut taken = 0;
        loop {
            match self.asked() {
                Asked::Operation(ask, operation) => {
                    let PeerAction::Write { part, .. } = operation.action else {
                        panic!("no bytes")
                    };
                    let its = PeerHandle { session: SESSION, handle: HANDLE };
                    assert_eq!(operation.handle, its);
                    taken += part.bytes;
                    self.done(ask, Ok(part.bytes));
                }
                Asked::Control(ask, MemoryRequest::Adopt { .. }) => {
                    assert_eq!(taken, BYTES);
                    return ask;
                }
                Asked::Control(_, other) => panic!("{other:?}"),
            }
        }
    }

    /// Until it is asked whether it has the region.
    fn is_asked_whether(&self) -> AskId {
        loop {
            match self.asked() {
                Asked::Control(ask, MemoryRequest::MapRegion { region, .. }) => {
                    assert_eq!(region, REGION);
                    return ask;
                }
                Asked::Control(ask, _) => self.reply(ask, &PeerReply::Done),
                Asked::Operation(ask, _) => self.done(ask, Err(PeerRefusal::NoHandle)),
            }
        }
    }

    /// Whether a handle is given back to it next.
    fn has_it_back(&self) -> bool {
        matches!(self.asked(), Asked::Control(_, MemoryRequest::Unmap { handle }) if handle == HANDLE)
    }
}

/// A node with a region, its owner, and another program in it; and a node that lies.
struct Set {
    one: Daemon,
    owner: Program,
    other: Program,
    liar: Target,
    _secret: SecretFile,
}

const LIFE: u64 = 1000;

fn start(test: &str) -> Set {
    let secret = SecretFile::new(test, DIGITS);
    let [one] = nodes::<1>(&secret);
    let mut owner = Program::start(&one);
    assert_eq!(owner.say(&format!("allocate kv {BYTES} name=kv")), "direct");
    owner.does(&format!("fill kv 5 0 {BYTES}"));
    let mut other = Program::start(&one);
    assert_eq!(other.say("map kv kv rwa"), "direct");
    let liar = Target::join(&one, LIFE);
    Set { one, owner, other, liar, _secret: secret }
}

fn memory(daemon: &Daemon, what: &str) -> u64 {
    daemon.status()["memory"][what].as_u64().unwrap()
}

impl Set {
    /// The region is here, whole, and moves no more; both programs have it.
    fn is_here(&mut self) {
        await_that("it moves no more", || memory(&self.one, "moving") == 0);
        assert_eq!(memory(&self.one, "regions"), 1);
        assert_eq!((memory(&self.one, "in_doubt"), memory(&self.one, "departed")), (0, 0));
        for program in [&mut self.owner, &mut self.other] {
            assert_eq!(program.say(&format!("check kv 5 0 {BYTES}")), "same");
            assert_eq!(program.say("where kv"), "here");
        }
    }

    /// The move is given up; the region is here.
    fn is_not_moved(&mut self) {
        assert_eq!(self.owner.hear(), "error not moved");
        self.is_here();
    }

    fn is_in_doubt(&self) {
        await_that("it is in doubt", || memory(&self.one, "in_doubt") == 1);
        assert_eq!((memory(&self.one, "moving"), memory(&self.one, "departed")), (1, 0));
    }
}

#[test]
fn a_place_of_another_size_is_none() {
    for bytes in [0, 1, BYTES - 1, BYTES + 1, u64::MAX] {
        let mut set = start("hostile-move-size");
        set.owner.send("move_to kv 77");
        let Asked::Control(ask, _) = set.liar.asked() else { panic!("bytes before a place") };
        set.liar.reply(ask, &granted(REGION, bytes));
        set.is_not_moved();
        assert!(set.liar.has_it_back(), "{bytes}");
    }
}

#[test]
fn answers_that_are_none_while_it_is_staged_or_copied_leave_it_here() {
    let mut set = start("hostile-move-answers");
    for reply in [PeerReply::Done, refusal(Code::Full), refusal(Code::BadRecord)] {
        set.owner.send("move_to kv 77");
        let Asked::Control(ask, MemoryRequest::Stage(_)) = set.liar.asked() else { panic!("no") };
        set.liar.reply(ask, &reply);
        set.is_not_moved();
    }
    for result in [Ok(0), Ok(1), Ok(u64::MAX), Err(PeerRefusal::Stale), Err(PeerRefusal::Again)] {
        set.owner.send("move_to kv 77");
        set.liar.stage();
        let Asked::Operation(ask, _) = set.liar.asked() else { panic!("no bytes") };
        set.liar.done(ask, result);
        set.is_not_moved();
        // What was sent before it was given up, and the handle.
        loop {
            match set.liar.asked() {
                Asked::Operation(ask, _) => set.liar.done(ask, Ok(1)),
                Asked::Control(_, MemoryRequest::Unmap { .. }) => break,
                Asked::Control(_, other) => panic!("{other:?}"),
            }
        }
    }
    set.is_here();
}

#[test]
fn a_node_that_says_yes_and_then_nothing_costs_ten_seconds() {
    let mut set = start("hostile-move-silent");
    // No word about the place.
    set.owner.send("move_to kv 77");
    let Asked::Control(late, MemoryRequest::Stage(_)) = set.liar.asked() else { panic!("no") };
    let begun = Instant::now();
    set.other.send("add kv 0 0 1");
    set.other.hear();
    set.is_not_moved();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Until that is answered it does not move again; the answer's place is given back.
    assert_eq!(set.owner.say("move_to kv 77"), "error refused BadState 0");
    set.liar.reply(late, &granted(REGION, BYTES));
    assert!(set.liar.has_it_back());
    // A place, and no word about the bytes.
    set.owner.send("move_to kv 77");
    set.liar.stage();
    let begun = Instant::now();
    set.is_not_moved();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_link_that_ends_amid_the_bytes_leaves_it_here() {
    let mut set = start("hostile-move-link");
    set.owner.send("move_to kv 77");
    set.liar.stage();
    let Asked::Operation(ask, operation) = set.liar.asked() else { panic!("no bytes") };
    let PeerAction::Write { part, .. } = operation.action else { panic!("no bytes") };
    set.liar.done(ask, Ok(part.bytes));
    set.liar.0.leave();
    set.is_not_moved();
    assert_eq!(set.owner.say("move_to kv 77"), "error unreachable 0");
}

#[test]
fn an_adoption_that_is_not_answered_is_in_doubt_until_that_node_says_which() {
    for has_it in [false, true] {
        let mut set = start("hostile-move-doubt");
        set.owner.send("move_to kv 77");
        set.liar.stage();
        let late = set.liar.take_all();
        let begun = Instant::now();
        let ask = set.liar.is_asked_whether();
        assert!(begun.elapsed() > Duration::from_secs(5), "an answer had its time");
        set.is_in_doubt();
        set.other.send("add kv 0 0 1");
        // Neither nonsense, nor another region, nor one of another size, nor the late answer, decides.
        set.liar.reply(late, &PeerReply::Done);
        set.liar.reply(ask, &PeerReply::Done);
        let other = ObjectId { index: 8, generation: 1 };
        for reply in [granted(other, BYTES), granted(REGION, BYTES - 1), refusal(Code::Internal)] {
            let ask = set.liar.is_asked_whether();
            set.is_in_doubt();
            set.liar.reply(ask, &reply);
        }
        assert_eq!(set.owner.hear(), "error in doubt 77", "whoever moves it is told");
        let ask = set.liar.is_asked_whether();
        set.is_in_doubt();
        if has_it {
            set.liar.reply(ask, &granted(REGION, BYTES));
            await_that("it has left", || memory(&set.one, "regions") == 0);
            assert_eq!((memory(&set.one, "departed"), memory(&set.one, "in_doubt")), (1, 0));
        } else {
            set.liar.reply(ask, &refusal(Code::NotFound));
            set.other.hear();
            set.is_here();
        }
    }
}

#[test]
fn an_answer_to_the_adoption_that_is_none_is_a_doubt_and_a_later_life_ends_it() {
    let mut set = start("hostile-move-adopt");
    for reply in [granted(REGION, BYTES), granted(REGION, 0)] {
        set.owner.send("move_to kv 77");
        set.liar.stage();
        let ask = set.liar.take_all();
        set.liar.reply(ask, &reply);
        let ask = set.liar.is_asked_whether();
        set.is_in_doubt();
        set.liar.reply(ask, &refusal(Code::NotFound));
        set.is_not_moved();
    }
    // Bytes that are no answer, and the link ends before it is asked.
    set.owner.send("move_to kv 77");
    set.liar.stage();
    let ask = set.liar.take_all();
    set.liar.0.answer(ask, &[9; 32], &[]);
    set.liar.is_asked_whether();
    set.is_in_doubt();
    set.liar.0.leave();
    std::thread::sleep(Duration::from_millis(700));
    set.is_in_doubt();
    set.liar = Target::join(&set.one, LIFE + 1);
    set.is_not_moved();
}

#[test]
fn answers_that_come_twice_count_once() {
    let mut set = start("hostile-move-twice");
    set.owner.send("move_to kv 77");
    let Asked::Control(ask, MemoryRequest::Stage(_)) = set.liar.asked() else { panic!("no") };
    set.liar.reply(ask, &granted(REGION, BYTES));
    set.liar.reply(ask, &granted(ObjectId { index: 8, generation: 1 }, 1));
    let mut writes = Vec::new();
    while let Some(asked) = set.liar.asked_within(Duration::from_millis(500)) {
        let Asked::Operation(ask, operation) = asked else { panic!("adopted before its bytes") };
        let PeerAction::Write { part, .. } = operation.action else { panic!("no bytes") };
        writes.push((ask, part.bytes));
    }
    // As many answers as there are bytes, but to one part only.
    assert!(writes.len() > 2);
    for _ in 0..writes.len() {
        set.liar.done(writes[0].0, Ok(writes[0].1));
    }
    assert!(set.liar.asked_within(Duration::from_millis(500)).is_none(), "nothing goes on");
    writes[1..].iter().for_each(|(ask, bytes)| set.liar.done(*ask, Ok(*bytes)));
    let Asked::Control(ask, MemoryRequest::Adopt { .. }) = set.liar.asked() else { panic!("no") };
    set.liar.reply(ask, &refusal(Code::Denied));
    set.liar.reply(ask, &PeerReply::Done);
    set.is_not_moved();
}

#[test]
fn an_adoption_is_done_once_and_its_name_leads_there() {
    let mut set = start("hostile-move-done");
    set.owner.send("move_to kv 77");
    set.liar.stage();
    let ask = set.liar.take_all();
    set.liar.reply(ask, &PeerReply::Done);
    set.liar.reply(ask, &refusal(Code::Denied));
    assert_eq!(set.owner.hear(), "done");
    assert_eq!((memory(&set.one, "regions"), memory(&set.one, "departed")), (0, 1));
    // From here on that node has it, and whatever it does with it is what is there; its programs are told.
    set.other.send("read kv 0 4");
    let ask = set.liar.is_asked_whether();
    set.liar.reply(ask, &refusal(Code::NotFound));
    let answer = set.other.hear();
    assert!(answer.starts_with("error "), "{answer}");
}
