//! A node that has the cluster's secret and lies about calls: it costs nobody but itself.

use std::time::{Duration, Instant};

use crate::support::await_that;
use crate::support::cluster::{config, free_ports, nodes, SecretFile};
use crate::support::liar::{self, garbage, own_user};
use crate::support::programs::Program;
use crate::support::recorded::Dice;
use crate::support::Daemon;
use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::name::OWN_USER;
use heliostat_abi::rpc::peer::{
    FarCall, FarReply, PeerAnswer, PeerControl, PeerMessage, PeerReply,
};
use heliostat_abi::rpc::request::SERVICE;
use heliostat_abi::rpc::{FunctionInfo, FunctionName, RpcReply, RpcRequest};
use heliostat_abi::session::record::Bound;

const DIGITS: &str = "7f";

/// Node 2.
struct Liar(liar::Liar);

impl Liar {
    fn join(daemon: &Daemon) -> Liar {
        Liar(liar::Liar::join(daemon, 2, DIGITS, SERVICE))
    }

    fn tell(&self, message: PeerMessage, payload: Vec<u8>) -> PeerAnswer {
        let reply = self.0.ask(&message.encode(), payload).unwrap();
        assert!(reply.payload.is_empty());
        PeerAnswer::decode(&reply.header).unwrap()
    }

    fn control(&self, user: u32, session: ObjectId, request: RpcRequest) -> PeerReply {
        let asked = PeerControl { user, process: 1, session, request };
        self.0.control(&asked.encode(), Vec::new())
    }

    /// The function `kv` of this user, granted to the user.
    fn find(&self) -> (ObjectId, FunctionInfo) {
        let name = FunctionName::parse("kv").unwrap();
        let find = RpcRequest::Find { user: OWN_USER, node: 0, name };
        let reply = self.control(own_user(), ObjectId::default(), find);
        let PeerReply::Own { session, reply } = reply else { panic!("{reply:?}") };
        let Ok(RpcReply::Granted(info)) = RpcReply::decode(&reply) else { panic!("none") };
        (session, info)
    }

    /// The next call that the daemon makes to this node's functions, which is answered so.
    fn receive(&self, answer: PeerAnswer) -> FarCall {
        loop {
            let asked = self.0.asked();
            if let Ok(PeerMessage::Call(call)) = PeerMessage::decode(&asked.header) {
                self.0.answer(asked.ask, &answer.encode(), &[]);
                return call;
            }
        }
    }

    /// The next request to this node's control plane is answered so.
    fn answer(&self, reply: &PeerReply) -> RpcRequest {
        loop {
            let asked = self.0.asked();
            if let Ok(control) = PeerControl::decode(&asked.header) {
                self.0.answer_control(asked.ask, reply);
                return control.request;
            }
        }
    }

    /// Grants the function that is sought next.
    fn grant(&self, info: FunctionInfo) {
        let reply = Box::new(RpcReply::Granted(FunctionInfo { node: 0, ..info }).encode());
        let session = ObjectId { index: 5, generation: 5 };
        self.answer(&PeerReply::Own { session, reply });
    }
}

fn call_of(user: ObjectId, info: &FunctionInfo, number: u32) -> FarCall {
    FarCall {
        call: ObjectId { index: number, generation: 1 },
        user,
        function: info.function,
        session: ObjectId::default(),
        process: 9,
        is_one_way: false,
        is_now: false,
        left_us: 0,
    }
}

/// A node that serves `kv`, and a client of its own.
fn start(test: &str, mode: &str) -> (Daemon, Program, Program, SecretFile) {
    let secret = SecretFile::new(test, DIGITS);
    let [daemon] = nodes::<1>(&secret);
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does(&format!("serve kv {mode}"));
    client.say("find kv");
    (daemon, server, client, secret)
}

#[test]
fn garbage_is_refused_and_everybody_else_goes_on() {
    let (mut daemon, _server, mut client, _secret) = start("rpc-garbage", "mix");
    let liar = Liar::join(&daemon);
    liar.find();
    let mut dice = Dice::new(1);
    for round in 0..2000 {
        let length = match round % 3 {
            0 => 48,
            1 => 132,
            _ => dice.below(469) as usize,
        };
        let mut header = garbage(&mut dice, length);
        if let [first, second, ..] = header.as_mut_slice() {
            (*first, *second) = (dice.below(5) as u8, 0);
        }
        // A refusal of the transport, or an answer; the link stays.
        let _ = liar.0.ask(&header, vec![round as u8; (dice.below(3) * 8) as usize]);
    }
    client.does("call kv 100000 20000");
    assert_eq!(daemon.ended(), None);
}

#[test]
fn functions_that_were_not_granted_and_users_of_other_nodes_are_not_called() {
    let (daemon, mut server, mut client, _secret) = start("rpc-foreign", "mix");
    server.does("serve other mix");
    let liar = Liar::join(&daemon);
    let (user, info) = liar.find();
    let other = ObjectId { index: info.function.index + 1, ..info.function };
    let wrong = [
        FarCall { function: other, ..call_of(user, &info, 1) },
        FarCall {
            user: ObjectId { index: 1 << 31 | 77, generation: 1 },
            ..call_of(user, &info, 2)
        },
        FarCall { user: ObjectId { generation: 9, ..user }, ..call_of(user, &info, 3) },
        FarCall { user: ObjectId::default(), ..call_of(user, &info, 4) },
    ];
    for call in wrong {
        let answer = liar.tell(PeerMessage::Call(call), vec![1; 8]);
        assert_eq!(answer, PeerAnswer::NotGranted, "{call:?}");
    }
    let long = liar.tell(PeerMessage::Call(call_of(user, &info, 5)), vec![1; (1 << 20) + 1]);
    assert_eq!(long, PeerAnswer::TooLong);
    // A leave of what is another's, or nobody's, is refused; its own ends the right.
    let leave = RpcRequest::Leave { function: info.function, serves: false, calls: true };
    let refused = liar.control(0, ObjectId { generation: 9, ..user }, leave.clone());
    assert!(matches!(refused, PeerReply::Refused { code: Code::NotFound, .. }), "{refused:?}");
    assert_eq!(liar.control(0, user, leave.clone()), PeerReply::Done);
    assert_eq!(
        liar.tell(PeerMessage::Call(call_of(user, &info, 6)), Vec::new()),
        PeerAnswer::NotGranted
    );
    let again = liar.control(0, user, leave);
    assert!(matches!(again, PeerReply::Refused { .. } | PeerReply::Done), "{again:?}");
    client.does("call kv 100 20000");
    assert_eq!(server.say("seen"), "1 0 0");
}

#[test]
fn replies_to_calls_that_are_not_its_own_reach_nobody() {
    let secret = SecretFile::new("rpc-replies", DIGITS);
    let ports = free_ports::<3>();
    let daemon = Daemon::with(&config(0, &ports, &secret), &[]);
    let three = Daemon::with(&config(2, &ports, &secret), &[]);
    await_that("node 3 is joined", || crate::support::cluster::joined_count(&three) == 1);
    let mut server = Program::start(&three);
    server.does("serve kv hold");
    let mut client = Program::start(&daemon);
    client.say("find_on 3 kv");
    client.send("call kv 100 60000");
    await_that("it was received", || server.say("seen") == "1 0 0");
    let liar = Liar::join(&daemon);
    for (index, generation) in (0..64).flat_map(|index| (0..4).map(move |it| (index, it))) {
        let call = ObjectId { index, generation };
        for how in [FarReply::Done, FarReply::No, FarReply::ServerEnded] {
            let answer = liar.tell(PeerMessage::Reply { call, how }, Vec::new());
            assert_eq!(answer, PeerAnswer::NobodyWaits);
        }
        assert_eq!(liar.tell(PeerMessage::Leave { call }, Vec::new()), PeerAnswer::Done);
    }
    assert_eq!(server.say("answer_held"), "answered heard");
    assert_eq!(client.hear(), "done");
}

#[test]
fn a_call_that_is_sent_twice_is_received_once_and_a_reply_counts_once() {
    let (daemon, mut server, mut client, _secret) = start("rpc-replay", "slow=700");
    let liar = Liar::join(&daemon);
    let (user, info) = liar.find();
    client.send("call kv 1 20000");
    await_that("it is busy", || server.say("seen") == "1 0 0");
    let call = PeerMessage::Call(call_of(user, &info, 1));
    liar.0.send(7, &call.encode(), vec![1; 10]);
    assert_eq!(liar.tell(call, vec![1; 10]), PeerAnswer::Malformed, "in line already");
    let (token, outcome) = liar.0.outcome();
    assert_eq!(token, 7);
    assert_eq!(PeerAnswer::decode(&outcome.unwrap().header), Ok(PeerAnswer::Done), "received");
    assert_eq!(liar.tell(call, vec![1; 10]), PeerAnswer::Malformed, "received already");
    assert_eq!(client.hear(), "done");
    await_that("it was served once", || server.say("seen").starts_with("2 0"));

    // The other way: this node serves, and replies as often as it likes.
    let mut caller = Program::start(&daemon);
    caller.send("find_on 2 kv");
    liar.grant(info);
    assert_eq!(caller.hear(), "found 1048576 1048576");
    caller.send("ask kv x");
    let call = liar.receive(PeerAnswer::Done).call;
    let reply = |call, how| PeerMessage::Reply { call, how };
    assert_eq!(liar.tell(reply(call, FarReply::Done), b"once".to_vec()), PeerAnswer::Done);
    assert_eq!(caller.hear(), "once");
    for how in [FarReply::Done, FarReply::No, FarReply::ServerEnded] {
        assert_eq!(liar.tell(reply(call, how), Vec::new()), PeerAnswer::NobodyWaits);
    }
    // A reply that is longer than there is room for, and an answer that is none.
    caller.send("ask kv x");
    let call = liar.receive(PeerAnswer::Done).call;
    let long = vec![0; (1 << 20) + 1];
    assert_eq!(liar.tell(reply(call, FarReply::Done), long), PeerAnswer::Malformed);
    assert_eq!(caller.hear(), "error node 2 NodeBroken, may have run");
    caller.send("ask kv x");
    liar.receive(PeerAnswer::NobodyWaits);
    assert_eq!(caller.hear(), "error node 2 NodeBroken, may have run");
}

#[test]
fn a_node_that_answers_nothing_ends_its_callers_by_their_time_and_no_others() {
    let (daemon, _server, mut client, _secret) = start("rpc-silent", "mix");
    let liar = Liar::join(&daemon);
    let (_, info) = liar.find();
    let mut caller = Program::start(&daemon);
    caller.send("find_on 2 kv");
    liar.grant(info);
    assert_eq!(caller.hear(), "found 1048576 1048576");
    let begun = Instant::now();
    let told = caller.say("call kv 1000000 300");
    assert!(told.starts_with("error node 2 TimedOut, may have run"), "{told}");
    caller.does("begin kv 1000000 0");
    assert_eq!(caller.say("cancel"), "error node 2 Cancelled, may have run");
    assert!(begun.elapsed() < Duration::from_secs(20));
    client.does("many kv 50 1 100000");
}

#[test]
fn floods_fill_their_own_line_and_others_are_served() {
    let (mut daemon, mut server, mut client, _secret) = start("rpc-flood", "mix queue=4");
    let liar = Liar::join(&daemon);
    let (user, info) = liar.find();
    server.does("serve idle hold");
    let mut sent = 0u32;
    // Calls of which it takes no reply, and messages for which there is no room.
    for round in 0..6000u32 {
        let call = FarCall {
            is_one_way: round % 3 == 0,
            is_now: round % 6 == 0,
            ..call_of(user, &info, round + 1)
        };
        let bytes = if round % 50 == 0 { 200_000 } else { 10 };
        liar.0.send(u64::from(round), &PeerMessage::Call(call).encode(), vec![1; bytes]);
        sent += 1;
        if round % 1000 == 0 {
            client.does("call kv 100000 20000");
        }
    }
    client.does("many kv 100 1 50000");
    let mut answers = std::collections::BTreeMap::<String, u32>::new();
    while sent > 0 {
        let outcome = liar.0.outcome().1;
        let told = match outcome {
            Ok(reply) => format!("{:?}", PeerAnswer::decode(&reply.header).unwrap()),
            Err(_) => "not sent".into(),
        };
        *answers.entry(told).or_default() += 1;
        sent -= 1;
    }
    eprintln!("{answers:?}");
    assert!(answers.contains_key("Done"));
    client.does("many kv 100 1 50000");
    assert_eq!(daemon.ended(), None);
}

/// A function that comes when nobody waits for it any more is given back, and again where the node says
/// that it has not taken it.
#[test]
fn a_function_that_is_granted_late_is_given_back_until_the_node_takes_it() {
    let (daemon, _server, _client, _secret) = start("rpc-late", "mix");
    let liar = Liar::join(&daemon);
    let (_, info) = liar.find();
    let mut caller = Program::start(&daemon);
    assert_eq!(caller.say("find_on 2 kv"), "error node 2 refused Unreachable 0, not run");
    liar.grant(info);
    let full = PeerReply::Refused { code: Code::Full, limit: 1, bound: Bound::NONE };
    let leave = RpcRequest::Leave { function: info.function, serves: false, calls: true };
    assert_eq!(liar.answer(&full), leave);
    assert_eq!(liar.answer(&full), leave, "told again");
    assert_eq!(liar.answer(&PeerReply::Done), leave);
    let rests = || daemon.status()["rpc"]["functions_to_give_back"] == 0;
    await_that("nothing is left of it", rests);
}
