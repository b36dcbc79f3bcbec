//! A node that has the cluster's secret and lies about locks: it gets nothing that is others', and costs
//! only itself.

use crate::support::cluster::{nodes, SecretFile};
use crate::support::liar::{self, garbage, own_user};
use crate::support::programs::Program;
use crate::support::recorded::Dice;
use crate::support::{await_that, Daemon};
use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::lock::name::OWN_USER;
use heliostat_abi::lock::peer::{PeerLock, PeerNews, PeerReply};
use heliostat_abi::lock::request::SERVICE;
use heliostat_abi::lock::{Claim, Event, LockName, LockReply, LockRequest, Outcome, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Bound;
use heliostat_server_node::AskId;

const DIGITS: &str = "5d";

const fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

/// Node 77.
struct Liar(liar::Liar);

impl Liar {
    fn join(daemon: &Daemon) -> Liar {
        Liar(liar::Liar::join(daemon, 77, DIGITS, SERVICE))
    }

    fn tell(&self, asked: &PeerLock) -> PeerReply {
        let (header, payload) = asked.encode();
        self.0.control(&header, payload)
    }

    /// As a user's session.
    fn ask(&self, session: ObjectId, user: u32, request: LockRequest) -> PeerReply {
        self.tell(&PeerLock::Ask { user, process: 1, session, request })
    }

    fn open(&self, session: ObjectId, user: u32, name: &str) -> PeerReply {
        let name = LockName::parse(name).unwrap();
        self.ask(session, user, LockRequest::Open { user: OWN_USER, name, shape: Shape::LOCK })
    }

    /// What the daemon asks next of this node.
    fn asked(&self) -> (AskId, PeerLock) {
        let asked = self.0.asked();
        (asked.ask, PeerLock::decode(&asked.header, &asked.payload).unwrap())
    }

    fn answer(&self, ask: AskId, reply: &PeerReply) {
        self.0.answer_control(ask, reply);
    }
}

fn code_of(reply: &PeerReply) -> Option<Code> {
    match reply {
        PeerReply::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

fn own(reply: &LockReply) -> PeerReply {
    PeerReply::Own { session: ObjectId::default(), reply: Box::new(reply.encode()) }
}

fn outcome(ticket: ObjectId, outcome: Outcome) -> PeerReply {
    own(&LockReply::Outcome(Event { ticket, outcome }))
}

const GRANTED: Outcome = Outcome::Granted { token: 7, has_owner_died: false };

fn holder(daemon: &Daemon) -> Program {
    let mut holder = Program::start(daemon);
    holder.does("open it lock kv");
    assert!(holder.say("claim it held x wait").starts_with("held "));
    holder
}

#[test]
fn garbage_is_refused_and_changes_nothing() {
    let secret = SecretFile::new("lock-garbage", DIGITS);
    let [mut daemon] = nodes::<1>(&secret);
    let mut holder = holder(&daemon);
    let liar = Liar::join(&daemon);
    let mut dice = Dice::new(1);
    let whole = PeerLock::End { session: id(1) }.encode().0.len();
    for round in 0..3000 {
        let length = if round % 4 == 0 { dice.below(469) as usize } else { whole };
        let mut header = garbage(&mut dice, length);
        if let [first, second, third, fourth, ..] = header.as_mut_slice() {
            (*first, *second) = (dice.below(5) as u8, 0);
            (*third, *fourth) = (dice.below(12) as u8, SERVICE as u8);
        }
        let _ = liar.0.ask(&header, vec![round as u8; (dice.below(5) * 16) as usize]);
    }
    assert_eq!(holder.say("holds held"), "true");
    holder.does("release held");
    assert_eq!(daemon.ended(), None);
}

#[test]
fn handles_tickets_and_sessions_of_others_lead_nowhere() {
    let secret = SecretFile::new("lock-foreign", DIGITS);
    let [daemon, other] = nodes::<2>(&secret);
    let mut there = holder(&daemon);
    let mut honest = Program::start(&other);
    honest.does("open it lock mine on=1");
    assert!(honest.say("claim it held x wait").starts_with("held "));
    let liar = Liar::join(&daemon);
    let nothing = LockRequest::Cancel { ticket: id(0) };
    assert_eq!(
        code_of(&liar.ask(id(1), own_user(), nothing)),
        Some(Code::NotFound),
        "no session yet"
    );
    let PeerReply::Own { .. } = liar.open(id(1), own_user(), "liars") else { panic!("not opened") };
    for generation in 0..4 {
        for index in (0..6).chain((0..6).map(|index| 1 << 31 | index)) {
            let it = ObjectId { index, generation };
            // A name of a session is one of the liar's own, whoever else has such a number.
            liar.tell(&PeerLock::End { session: ObjectId { index: index + 10, generation } });
            for request in [
                LockRequest::Release { ticket: it, untouched: false },
                LockRequest::Cancel { ticket: it },
                LockRequest::Arrive { handle: ObjectId { index: index + 40, generation } },
                LockRequest::Reset { handle: ObjectId { index: index + 40, generation } },
            ] {
                let code = code_of(&liar.ask(id(1), own_user(), request));
                assert_eq!(code, Some(Code::NotFound), "{it}");
            }
            let news = PeerNews { session: it, event: Event { ticket: it, outcome: GRANTED } };
            assert_eq!(liar.tell(&PeerLock::News(vec![news])), PeerReply::Done, "in vain");
        }
    }
    // Another user by the same session.
    let wrong = liar.open(id(1), own_user() + 1, "liars");
    assert_eq!(code_of(&wrong), Some(Code::BadRecord));
    assert_eq!(there.say("holds held"), "true");
    assert_eq!(honest.say("holds held"), "true");
    honest.does("release held");
}

#[test]
fn a_flood_of_sessions_and_tickets_costs_only_its_node() {
    let secret = SecretFile::new("lock-flood", DIGITS);
    let [daemon] = nodes::<1>(&secret);
    let mut holder = holder(&daemon);
    let liar = Liar::join(&daemon);
    let mut limit = None;
    for number in 1..2000 {
        // Users as it likes: the limit is the node's.
        match liar.open(id(number), 50_000 + number, &format!("flood/{number}")) {
            PeerReply::Refused { code, limit: most, bound } => {
                limit = Some((code, most, bound, number));
                break;
            }
            reply => assert!(matches!(reply, PeerReply::Own { .. }), "{reply:?}"),
        }
    }
    let bound = Bound { thing: Thing::LockSessions, side: Side::Node };
    assert_eq!(limit, Some((Code::Full, 1024, bound, 1025)));
    holder.does("open more lock more");
    holder.does("release held");
    assert!(holder.say("claim more held x wait").starts_with("held "));
    // Nothing is left of it.
    drop(liar);
    await_that("its locks are gone", || daemon.status()["locks"]["locks"] == 2);
}

#[test]
fn where_no_node_is_believed_who_asks_nothing_is_granted() {
    let secret = SecretFile::new("lock-none", DIGITS);
    let ports = crate::support::cluster::free_ports::<1>();
    let config = crate::support::cluster::config(0, &ports, &secret) + "users = \"none\"\n";
    let daemon = Daemon::with(&config, &[]);
    let liar = Liar::join(&daemon);
    assert_eq!(code_of(&liar.open(id(1), own_user(), "kv")), Some(Code::Denied));
}

/// A program that has opened a lock of the liar, or a barrier of two.
fn opened_there(daemon: &Daemon, liar: &Liar, what: &str) -> Program {
    let mut program = Program::start(daemon);
    program.send(&format!("open it {what} on=77"));
    let (ask, PeerLock::Ask { request: LockRequest::Open { .. }, .. }) = liar.asked() else {
        panic!("not asked")
    };
    liar.answer(ask, &own(&LockReply::Opened { handle: id(3), lock: id(4) }));
    assert_eq!(program.hear(), "done");
    program
}

#[test]
fn answers_that_are_none_cost_their_session_only_what_it_has_there() {
    let secret = SecretFile::new("lock-answers", DIGITS);
    let [daemon] = nodes::<1>(&secret);
    let liar = Liar::join(&daemon);
    let wrong = [
        PeerReply::Done,
        outcome(id(1), Outcome::Passed { generation: 1, index: 0 }),
        outcome(id(1), Outcome::Lost { node: 5 }),
        own(&LockReply::Opened { handle: id(1), lock: id(1) }),
        own(&LockReply::Events { events: Vec::new(), more: false }),
    ];
    for reply in wrong {
        let mut program = opened_there(&daemon, &liar, "lock kv");
        program.does("open own lock own");
        program.send("claim it held x wait");
        let (ask, _) = liar.asked();
        liar.answer(ask, &reply);
        assert_eq!(program.hear(), "error node 77 maybe", "{reply:?}");
        // What the node has done for it is not known: so it has nothing there.
        let (ask, PeerLock::End { .. }) = liar.asked() else { panic!("no end") };
        liar.answer(ask, &PeerReply::Done);
        assert_eq!(program.say("claim it held x wait"), "error node 77");
        assert!(program.say("claim own held x try").starts_with("held "));
        program.does("release held");
        program.kill();
    }
    let mut program = opened_there(&daemon, &liar, "lock kv");
    for (code, told) in [
        (Code::BadRecord, "error refused BadRecord 0"),
        (Code::Revoked, "error node 77"),
        (Code::Internal, "error node 77"),
    ] {
        for _ in 0..12 {
            program.send("claim it held x wait");
            let (ask, _) = liar.asked();
            liar.answer(ask, &PeerReply::Refused { code, limit: 0, bound: Bound::NONE });
            assert_eq!(program.hear(), told, "no fault of the session");
        }
    }
}

#[test]
fn news_that_do_not_fit_change_nothing_and_those_that_come_early_are_kept() {
    let secret = SecretFile::new("lock-news", DIGITS);
    let [daemon] = nodes::<1>(&secret);
    let liar = Liar::join(&daemon);
    let mut program = opened_there(&daemon, &liar, "lock kv");
    program.send("claim it held x wait");
    let (ask, PeerLock::Ask { session, .. }) = liar.asked() else { panic!("not asked") };
    let news = |ticket, outcome| {
        liar.tell(&PeerLock::News(vec![PeerNews { session, event: Event { ticket, outcome } }]))
    };
    let is_waiting = |daemon: &Daemon| daemon.status()["locks"]["elsewhere"]["waiting"] == 1;
    liar.answer(ask, &outcome(id(8), Outcome::Queued));
    await_that("it waits", || is_waiting(&daemon));
    for wrong in [
        Outcome::Passed { generation: 1, index: 0 },
        Outcome::Lost { node: 3 },
        Outcome::Busy,
        Outcome::Queued,
    ] {
        news(id(8), wrong);
    }
    news(id(9), GRANTED);
    assert!(is_waiting(&daemon), "another ticket, or what no lock says");
    news(id(8), GRANTED);
    assert_eq!(program.hear(), "held 7");
    // Told before the answer that names the ticket.
    program.send("request it place");
    let (ask, _) = liar.asked();
    news(id(9), Outcome::Granted { token: 8, has_owner_died: true });
    liar.answer(ask, &outcome(id(9), Outcome::Queued));
    assert_eq!(program.hear(), "done");
    assert_eq!(program.say("await place"), "held 8 owner-died");
    // Given twice.
    program.send("request it second");
    let (ask, _) = liar.asked();
    liar.answer(ask, &outcome(id(9), GRANTED));
    assert_eq!(program.hear(), "error node 77 maybe");
}

#[test]
fn a_node_that_never_answers_holds_up_no_other_and_is_released_from_when_it_does() {
    let secret = SecretFile::new("lock-silent", DIGITS);
    let [daemon] = nodes::<1>(&secret);
    let liar = Liar::join(&daemon);
    let mut program = opened_there(&daemon, &liar, "lock kv");
    assert_eq!(program.say("claim it held x wait"), "error node 77 maybe");
    program.does("open own lock own");
    assert!(program.say("claim own held x wait").starts_with("held "));
    let (ask, PeerLock::Ask { request: LockRequest::Acquire { claim, .. }, .. }) = liar.asked()
    else {
        panic!("not asked")
    };
    assert_eq!(claim, Claim::Exclusive);
    liar.answer(ask, &outcome(id(8), GRANTED));
    // Nobody waits for it any more.
    let (ask, PeerLock::Ask { request, .. }) = liar.asked() else { panic!("not asked") };
    assert_eq!(request, LockRequest::Release { ticket: id(8), untouched: true });
    liar.answer(ask, &PeerReply::Done);
}
