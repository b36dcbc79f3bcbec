//! Sessions that write anything into their rings, windows and requests, and limits that hold.

use std::os::fd::AsRawFd;

use crate::support::programs::Program;
use crate::support::{Client, Daemon};
use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::SUBMISSION_BYTES;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::request::{number, FIRST};
use heliostat_abi::rpc::{FunctionName, Publication, RpcReply, RpcRequest};
use heliostat_abi::session::record::{OwnRequest, Reply, Request, REQUEST_BODY_BYTES};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_ring::{Refresh, RingMemory};

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A session that asks as no program does.
struct Asking(Client);

impl Asking {
    fn new(daemon: &Daemon) -> Asking {
        Asking(daemon.session().0)
    }

    fn ask(&mut self, request: &RpcRequest, fds: &[i32]) -> (Result<RpcReply, Code>, Vec<OwnedFd>) {
        let (reply, fds) = self.0.ask_with(&Request::Own(request.encode()), fds);
        let answer = match reply {
            Reply::Own(own) => Ok(RpcReply::decode(&own).unwrap()),
            Reply::Refused { code, .. } => Err(code),
            Reply::Done => Err(Code::Ok),
            other => panic!("{other:?}"),
        };
        (answer, fds)
    }

    fn publish(&mut self, name: &str) -> Result<ObjectId, Code> {
        let (request_bytes, reply_bytes, queue) = (100, 100, 4);
        let name = FunctionName::parse(name).unwrap();
        let wanted = Publication { name, others: true, request_bytes, reply_bytes, queue };
        match self.ask(&RpcRequest::Publish(wanted), &[]).0? {
            RpcReply::Granted(info) => Ok(info.function),
            other => panic!("{other:?}"),
        }
    }

    /// Its rings.
    fn session(&mut self) -> OwnedFd {
        let (fd, _) = SharedMapping::create(c"window", 1 << 20).unwrap();
        let (answer, mut fds) = self.ask(&RpcRequest::Session, &[fd.as_raw_fd()]);
        assert!(matches!(answer, Ok(RpcReply::Session { .. })), "{answer:?}");
        fds.remove(0)
    }
}

/// Two programs of which one calls the other.
struct Pair {
    _server: Program,
    client: Program,
}

impl Pair {
    fn new(daemon: &Daemon) -> Pair {
        let (mut server, mut client) = (Program::start(daemon), Program::start(daemon));
        server.does("serve good mix");
        client.say("find good");
        Pair { _server: server, client }
    }

    fn serves(&mut self) {
        for bytes in [8, 100_000] {
            self.client.does(&format!("call good {bytes} 20000"));
        }
    }
}

#[test]
fn requests_of_random_bytes_are_refused_and_others_served() {
    let daemon = Daemon::start();
    let mut pair = Pair::new(&daemon);
    let (fd, _window) = SharedMapping::create(c"window", 1 << 20).unwrap();
    let mut random = Random(88_172_645_463_325_252);
    for number in FIRST..=number::LIST {
        let mut client = Asking::new(&daemon);
        for round in 0..60 {
            // Who sends nothing but rubbish is ended before long.
            if round % 6 == 0 {
                client = Asking::new(&daemon);
            }
            let mut body = [0u8; REQUEST_BODY_BYTES];
            let count = if round % 2 == 0 { 3 } else { REQUEST_BODY_BYTES };
            for _ in 0..count {
                body[random.next(REQUEST_BODY_BYTES as u64) as usize] = random.next(256) as u8;
            }
            let brings: &[i32] = if number == number::SESSION { &[fd.as_raw_fd()] } else { &[] };
            let (reply, _) = client.0.ask_with(&Request::Own(OwnRequest { number, body }), brings);
            let is_answer = matches!(reply, Reply::Own(_) | Reply::Done | Reply::Refused { .. });
            assert!(is_answer, "{reply:?}");
        }
    }
    pair.serves();
}

#[test]
fn rings_of_random_bytes_end_their_own_session_at_most() {
    let daemon = Daemon::start();
    let mut pair = Pair::new(&daemon);
    let mut random = Random(7);
    for round in 0..20 {
        let mut client = Asking::new(&daemon);
        client.publish(&format!("bad/{round}")).unwrap();
        let rings = client.session();
        if round % 2 == 0 {
            let memory = RingMemory::attach(rings.as_raw_fd(), 0).unwrap();
            let mut ring = memory.spsc_producer(Refresh::Lazy).unwrap();
            for _ in 0..200 {
                let mut record = [0; 72];
                record.iter_mut().for_each(|byte| *byte = random.next(256) as u8);
                record[0] = 128 + random.next(4) as u8;
                let length = 40 + 16 * random.next(3) as usize;
                let _ = ring.push(&record[..length]);
            }
        } else {
            // Positions, headers and records alike.
            let bytes = 4096 + SUBMISSION_BYTES as usize;
            let memory =
                SharedMapping::map(rings.as_raw_fd(), 0, bytes, Access::ReadWrite).unwrap();
            for _ in 0..2000 {
                let at = random.next(bytes as u64) as usize;
                memory.copy_in(at, &[random.next(256) as u8]).unwrap();
            }
        }
        pair.serves();
    }
}

#[test]
fn functions_of_others_and_of_before_are_none() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Asking::new(&daemon), Asking::new(&daemon));
    let gone = one.publish("kv").unwrap();
    let leave = |function| RpcRequest::Leave { function, serves: true, calls: true };
    assert_eq!(one.ask(&leave(gone), &[]).0, Err(Code::Ok));
    let kept = one.publish("kv").unwrap();
    let wrong = [
        gone,
        ObjectId { generation: kept.generation + 1, ..kept },
        ObjectId { index: u32::MAX, generation: u32::MAX },
    ];
    for function in wrong {
        assert_eq!(one.ask(&leave(function), &[]).0, Err(Code::NotFound), "{function}");
    }
    assert_eq!(other.ask(&leave(kept), &[]).0, Err(Code::NotFound));
    assert_eq!(daemon.status()["rpc"]["functions"], 1);
    drop(one);
    crate::support::await_that("it ends with its session", || {
        daemon.status()["rpc"]["functions"] == 0
    });
}

#[test]
fn limits_are_those_of_the_configuration() {
    let text = "[rpc]\nfunctions_per_session = 3\nfunctions_per_user = 4\nsessions_per_user = 1\n";
    let daemon = Daemon::with(text, &[]);
    let (mut one, mut other) = (Asking::new(&daemon), Asking::new(&daemon));
    ["a", "b", "c"].iter().for_each(|name| _ = one.publish(name).unwrap());
    assert_eq!(one.publish("d"), Err(Code::Full));
    one.publish("c").unwrap();
    other.publish("d").unwrap();
    one.session();
    let (fd, _window) = SharedMapping::create(c"window", 1 << 20).unwrap();
    let (again, _) = one.ask(&RpcRequest::Session, &[fd.as_raw_fd()]);
    assert_eq!(again, Err(Code::BadState));
    let off = Daemon::with("[rpc]\nsessions = 0\n", &[]);
    let mut client = Asking::new(&off);
    client.publish("a").unwrap();
    let (none, _) = client.ask(&RpcRequest::Session, &[fd.as_raw_fd()]);
    assert_eq!(none, Err(Code::Denied));
}

#[test]
fn rules_say_who_publishes_and_who_calls() {
    let user = rustix::process::geteuid().as_raw();
    let rule = |rights: &str, names: &str| {
        format!("[[rule]]\naction = \"deny\"\nusers = [{user}]\nrights = [{rights}]\nnames = [{names}]\n")
    };
    let text = rule("\"publish\"", "\"/rpc/shut/*\"") + &rule("\"call\"", "\"/rpc/mute\"");
    let daemon = Daemon::with(&text, &[]);
    let mut client = Program::start(&daemon);
    assert_eq!(client.say("serve shut/a mix"), "error refused Denied 0, not run");
    client.does("serve mute mix");
    assert_eq!(client.say("find mute"), "error refused Denied 0, not run");
    client.does("serve fine mix");
    client.say("find fine");
    client.does("call fine 100 10000");
}

#[test]
fn a_window_that_may_vanish_is_none() {
    let daemon = Daemon::start();
    let mut client = Asking::new(&daemon);
    let file = tempfile();
    let (answer, _) = client.ask(&RpcRequest::Session, &[file.as_raw_fd()]);
    assert_eq!(answer, Err(Code::BadRecord));
    client.session();
}

fn tempfile() -> std::fs::File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let fd = rustix::fs::memfd_create("unsealed", flags).unwrap();
    rustix::fs::ftruncate(&fd, 1 << 20).unwrap();
    fd.into()
}
