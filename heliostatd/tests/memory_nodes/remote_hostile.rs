//! A node that has the cluster's secret and lies: it reaches nothing that it was not granted.

use crate::support::cluster::{nodes, SecretFile};
use crate::support::liar::{self, garbage, own_user};
use crate::support::programs::Program;
use crate::support::recorded::Dice;
use crate::support::Daemon;
use heliostat_abi::code::Code;
use heliostat_abi::memory::peer::{
    PeerAction, PeerAnswer, PeerControl, PeerHandle, PeerOperation, PeerRefusal, PeerReply, Range,
    CHUNK_BYTES_MAX,
};
use heliostat_abi::memory::request::SERVICE;
use heliostat_abi::memory::{Granted, MemoryName, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Bound, Reply, Request};

const DIGITS: &str = "5a";

/// Node 77.
struct Liar(liar::Liar);

impl Liar {
    fn join(daemon: &Daemon) -> Liar {
        Liar(liar::Liar::join(daemon, 77, DIGITS, SERVICE))
    }

    /// What the daemon asks next of this node is answered so; the request.
    fn answer(&self, reply: &PeerReply) -> MemoryRequest {
        let asked = self.0.asked();
        self.0.answer_control(asked.ask, reply);
        PeerControl::decode(&asked.header).unwrap().request
    }

    fn control(&self, request: MemoryRequest) -> PeerReply {
        let (user, is_restricted, process) = (own_user(), false, 1);
        let asked = PeerControl { user, is_restricted, process, request };
        self.0.control(&asked.encode(), Vec::new())
    }

    /// A handle on the region `kv`, as its owner's user.
    fn map(&self, rights: Rights) -> (PeerHandle, Granted) {
        let name = MemoryName::parse("kv").unwrap();
        let user = heliostat_abi::memory::name::OWN_USER;
        let reply = self.control(MemoryRequest::Map { user, name, rights });
        let PeerReply::Own { session, reply } = reply else { panic!("{reply:?}") };
        let Ok(MemoryReply::Granted(granted)) = MemoryReply::decode(&reply) else { panic!("none") };
        (PeerHandle { session, handle: granted.handle }, granted)
    }

    fn operate(&self, handle: PeerHandle, action: PeerAction) -> Result<u64, PeerRefusal> {
        let payload = match action {
            PeerAction::Write { part, .. } => vec![b'x'; part.bytes as usize],
            _ => Vec::new(),
        };
        let reply = self.0.ask(&PeerOperation { handle, action }.encode(), payload).unwrap();
        let answer = PeerAnswer::decode(&reply.header).unwrap();
        let is_read = matches!(action, PeerAction::Read { .. }) && answer.result.is_ok();
        assert!(is_read || reply.payload.is_empty(), "bytes that nobody was granted");
        answer.result
    }
}

/// One of each kind at an offset, on so many bytes.
fn all_kinds(handle: PeerHandle, offset: u64, bytes: u64) -> Vec<PeerAction> {
    let part = Range { offset, bytes };
    let copy = |to, from| PeerAction::Copy { to, source: handle, from, bytes, done: 0 };
    vec![
        PeerAction::Read { part, of: part },
        PeerAction::Write { part, of: part },
        PeerAction::Set { part, of: part, value: 7 },
        copy(offset, 0),
        copy(0, offset),
        PeerAction::FetchAdd { offset, more: 1 },
        PeerAction::CompareSwap { offset, expected: 0, new: 1 },
        PeerAction::Swap { offset, new: 1 },
    ]
}

/// A node whose owner has a region with a neighbour on each side in its arena.
fn start(test: &str) -> (Daemon, Program, SecretFile) {
    let secret = SecretFile::new(test, DIGITS);
    let [daemon] = nodes::<1>(&secret);
    let mut owner = Program::start(&daemon);
    for (key, more) in [("before", ""), ("kv", " name=kv"), ("after", "")] {
        owner.say(&format!("allocate {key} 4096{more}"));
        owner.does(&format!("fill {key} 9 0 4096"));
    }
    (daemon, owner, secret)
}

fn is_untouched(owner: &mut Program) {
    for key in ["before", "kv", "after"] {
        assert_eq!(owner.say(&format!("check {key} 9 0 4096")), "same", "{key}");
    }
}

#[test]
fn garbage_is_answered_with_a_refusal_and_touches_nothing() {
    let (mut daemon, mut owner, _secret) = start("garbage");
    let liar = Liar::join(&daemon);
    liar.map(Rights::ALL);
    let mut dice = Dice::new(1);
    for round in 0..3000 {
        let length = match round % 3 {
            0 => 72,
            1 => 128,
            _ => dice.below(469) as usize,
        };
        let mut header = garbage(&mut dice, length);
        if let [first, ..] = header.as_mut_slice() {
            *first = dice.below(9) as u8;
        }
        let payload = vec![round as u8; (dice.below(3) * 8) as usize];
        // A refusal of the transport, or an answer; the link stays.
        let _ = liar.0.ask(&header, payload);
    }
    is_untouched(&mut owner);
    assert_eq!(daemon.ended(), None);
}

#[test]
fn handles_of_other_nodes_and_of_nobody_lead_nowhere() {
    let secret = SecretFile::new("foreign", DIGITS);
    let [daemon, other] = nodes::<2>(&secret);
    let mut owner = Program::start(&daemon);
    owner.say("allocate kv 4096 name=kv");
    owner.does("fill kv 9 0 4096");
    let mut honest = Program::start(&other);
    assert_eq!(honest.say("on 1 map kv kv rwa"), "on 1");
    assert_eq!(honest.say("check kv 9 0 4096"), "same");
    let liar = Liar::join(&daemon);
    // Every name that the honest node's session and handle could have, and the liar's own session.
    let (own, _) = liar.map(Rights::READ);
    let mut met_own = false;
    for session in 0..4 {
        for generation in 0..4 {
            for place in 0..4 {
                let session = ObjectId { index: 1 << 31 | session, generation };
                let handle = ObjectId { index: place, generation };
                let named = PeerHandle { session, handle };
                if named == own {
                    met_own = true;
                } else {
                    for action in all_kinds(named, 0, 8) {
                        assert_eq!(liar.operate(named, action), Err(PeerRefusal::NoHandle));
                    }
                }
            }
        }
    }
    assert!(met_own, "the names that are tried are names as the node gives them");
    let unmap = MemoryRequest::Unmap { handle: ObjectId { index: 9, generation: 1 } };
    let PeerReply::Refused { code, .. } = liar.control(unmap) else { panic!("done") };
    assert_eq!(code, Code::NotFound);
    assert_eq!(owner.say("check kv 9 0 4096"), "same");
    assert_eq!(honest.say("check kv 9 0 4096"), "same", "its handle is its own");
}

#[test]
fn nothing_beyond_a_region_or_its_rights_is_reached() {
    let (mut daemon, mut owner, _secret) = start("beyond");
    let liar = Liar::join(&daemon);
    let (all, granted) = liar.map(Rights::ALL);
    assert!(!granted.direct && granted.pieces.is_empty() && granted.bytes == 4096);
    let far = [4096, 4095, 1 << 40, i64::MAX as u64 - 8, u64::MAX - 8];
    for (offset, action) in
        far.iter().flat_map(|at| all_kinds(all, *at, 2).into_iter().map(move |it| (*at, it)))
    {
        let refused = liar.operate(all, action).unwrap_err();
        let is_fine = matches!(refused, PeerRefusal::Range | PeerRefusal::Malformed);
        assert!(is_fine, "{offset} {action:?} {refused:?}");
    }
    let part = Range { offset: 0, bytes: CHUNK_BYTES_MAX };
    assert_eq!(liar.operate(all, PeerAction::Read { part, of: part }), Err(PeerRefusal::Range));
    let (inside, of) = (Range { offset: 0, bytes: 8 }, Range { offset: 0, bytes: 4097 });
    assert_eq!(liar.operate(all, PeerAction::Write { part: inside, of }), Err(PeerRefusal::Range));
    let (read, _) = liar.map(Rights::READ);
    for action in all_kinds(read, 0, 8).into_iter().skip(1) {
        assert_eq!(liar.operate(read, action), Err(PeerRefusal::Denied), "{action:?}");
    }
    is_untouched(&mut owner);
    // What a handle allows still goes, and no longer when it is given back, or its region is gone.
    let first = Range { offset: 0, bytes: 8 };
    assert_eq!(liar.operate(all, PeerAction::Read { part: first, of: first }), Ok(8));
    assert_eq!(liar.control(MemoryRequest::Unmap { handle: read.handle }), PeerReply::Done);
    let late = PeerAction::Read { part: first, of: first };
    assert_eq!(liar.operate(read, late), Err(PeerRefusal::NoHandle));
    owner.does("free kv");
    assert_eq!(liar.operate(all, late), Err(PeerRefusal::Stale));
    assert_eq!(daemon.ended(), None);
}

#[test]
fn a_node_that_leaves_takes_its_handles_along_and_a_new_link_has_none_of_them() {
    let (daemon, mut owner, _secret) = start("leaves");
    let liar = Liar::join(&daemon);
    let (handle, _) = liar.map(Rights::ALL);
    assert_eq!(owner.say("list kv"), "listed kv:4096:leased:2");
    drop(liar);
    crate::support::await_that("its handle is gone", || {
        owner.say("list kv") == "listed kv:4096:leased:1"
    });
    let again = Liar::join(&daemon);
    let first = Range { offset: 0, bytes: 8 };
    let read = PeerAction::Read { part: first, of: first };
    assert_eq!(again.operate(handle, read), Err(PeerRefusal::NoHandle));
    again.map(Rights::READ);
    assert_eq!(again.operate(handle, read), Err(PeerRefusal::NoHandle));
}

#[test]
fn where_no_node_is_believed_who_asks_nothing_is_granted() {
    let secret = SecretFile::new("none", DIGITS);
    let ports = crate::support::cluster::free_ports::<1>();
    let config = crate::support::cluster::config(0, &ports, &secret) + "users = \"none\"\n";
    let daemon = Daemon::with(&config, &[]);
    let mut owner = Program::start(&daemon);
    owner.say("allocate kv 4096 name=kv others=rwa");
    let liar = Liar::join(&daemon);
    let name = MemoryName::parse("kv").unwrap();
    let map = MemoryRequest::Map { user: 0, name, rights: Rights::READ };
    let PeerReply::Refused { code, .. } = liar.control(map) else { panic!("granted") };
    assert_eq!(code, Code::Denied);
}

fn refusal(code: Code) -> PeerReply {
    PeerReply::Refused { code, limit: 0, bound: Bound::NONE }
}

#[test]
fn a_node_that_calls_requests_malformed_does_not_end_the_session_that_asked() {
    let (daemon, mut owner, _secret) = start("calls");
    let liar = Liar::join(&daemon);
    for _ in 0..12 {
        for (code, told) in [
            (Code::BadRecord, "error refused BadRecord 0"),
            (Code::BadVersion, "error unreachable 77"),
            (Code::Revoked, "error unreachable 77"),
        ] {
            owner.send("on 77 map there kv r");
            liar.answer(&refusal(code));
            assert_eq!(owner.hear(), told);
        }
    }
    assert_eq!(owner.say("list kv"), "listed kv:4096:leased:1");
    is_untouched(&mut owner);
}

#[test]
fn a_session_that_is_revoked_while_it_waits_for_a_node_is_told_and_what_comes_late_is_given_back() {
    let (daemon, mut owner, _secret) = start("revoked");
    let liar = Liar::join(&daemon);
    let (_, granted) = liar.map(Rights::READ);
    owner.send("on 77 map there kv r");
    let asked = liar.0.asked();
    let revoke = Request::Revoke { pid: owner.pid() };
    assert_eq!(daemon.visit().ask(&revoke).0, Reply::Done);
    assert_eq!(owner.hear(), "error refused Revoked 0");
    let (session, handle) = (ObjectId { index: 5, generation: 5 }, granted.handle);
    let reply = Box::new(MemoryReply::Granted(granted).encode());
    liar.0.answer_control(asked.ask, &PeerReply::Own { session, reply });
    assert_eq!(liar.answer(&PeerReply::Done), MemoryRequest::Unmap { handle });
    assert_eq!(owner.say("on 77 map there kv r"), "error refused Revoked 0");
}
