//! Strangers, wrong secrets, hung nodes and nodes that ask nonsense: they cost only themselves.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use heliostat_abi::cluster::request::SERVICE;
use heliostat_abi::cluster::MemberState;
use heliostat_abi::memory::peer::{PeerControl, PeerReply};
use heliostat_abi::memory::{Granted, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use rustix::process::Signal;
use support::cluster::{config, free_ports, incarnation, joined_count, nodes, state, SecretFile};
use support::liar::{AskedOfLiar, Liar};
use support::programs::{play, Program};
use support::{await_that, Daemon, WATCHDOG};

#[test]
fn program_process() {
    play();
}

#[test]
fn a_wrong_secret_is_refused_with_words_on_both_sides() {
    let (ours, theirs) = (SecretFile::new("ours", "b1"), SecretFile::new("theirs", "b2"));
    let ports = free_ports::<2>();
    let logs = [1, 2].map(|number| {
        support::place().join(format!("heliostat-log-{number}-{}", std::process::id()))
    });
    let start = |at: usize, secret: &SecretFile| {
        let log = logs[at].to_str().unwrap();
        Daemon::with(&config(at, &ports, secret), &["--log", log])
    };
    let daemons = [start(0, &ours), start(1, &theirs)];
    let says = |at: usize, words: &str| {
        std::fs::read_to_string(&logs[at]).unwrap_or_default().contains(words)
    };
    let words = "it does not know the secret of this cluster";
    await_that("who connects is told", || says(0, words) || says(1, words));
    assert!(daemons.iter().all(|it| joined_count(it) == 0));
    let why = daemons[1].status()["cluster"]["nodes"][0]["why"].clone();
    assert!(why.as_str().is_none_or(|why| why.contains(words)), "{why}");
    drop(daemons);
    logs.iter().for_each(|log| drop(std::fs::remove_file(log)));
}

#[test]
fn strangers_with_garbage_cost_the_nodes_nothing() {
    let secret = SecretFile::new("strangers", "b3");
    let daemons = nodes::<2>(&secret);
    let port = daemons[0].status()["cluster"]["address"].as_str().unwrap().to_owned();
    let address = port.strip_prefix("tcp:").unwrap().to_owned();
    let (lives, before) = (incarnation(&daemons[1], 1), daemons[0].descriptors());
    let connect = || TcpStream::connect(&address).unwrap();
    // Some say nothing, some say nonsense, some say it in our own framing and for ever.
    let silent: Vec<_> = (0..32).map(|_| connect()).collect();
    for seed in 0..32u8 {
        let mut stranger = connect();
        let noise: Vec<u8> = (0..4096u32).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
        // It may be cut off in the middle.
        let _ = stranger.write_all(if seed % 2 == 0 { b"HL\xff\xff\xff\xff\xff\xff" } else { b"" });
        let _ = stranger.write_all(&noise);
    }
    for mut stranger in silent {
        // Each is cut off in the end: after the time that a handshake may take.
        stranger.set_read_timeout(Some(WATCHDOG)).unwrap();
        let mut rest = Vec::new();
        let _ = stranger.read_to_end(&mut rest);
        assert!(rest.len() < 256, "a refusal at most");
    }
    assert_eq!(daemons[0].descriptors(), before);
    assert!(daemons.iter().all(|it| joined_count(it) == 1), "the nodes never lost each other");
    assert_eq!(incarnation(&daemons[1], 1), lives);
    assert_eq!(daemons[1].status()["cluster"]["epoch"], 1, "nor for a moment");
}

#[test]
fn a_hung_node_is_lost_and_joined_again_when_it_goes_on() {
    let secret = SecretFile::new("hung", "b4");
    let daemons = nodes::<2>(&secret);
    let life = incarnation(&daemons[0], 2);
    daemons[1].signal(Signal::STOP);
    await_that("it is lost", || state(&daemons[0], 2) != Some(MemberState::Joined));
    daemons[1].signal(Signal::CONT);
    await_that("it is joined again", || daemons.iter().all(|it| joined_count(it) == 1));
    assert_eq!(incarnation(&daemons[0], 2), life, "it is the same life");
}

#[test]
fn nodes_at_rest_cost_their_signs_of_life_and_no_more() {
    let secret = SecretFile::new("rest", "b5");
    let daemons = nodes::<2>(&secret);
    // The tests beside this one run in this process, and not in the daemons.
    let before = daemons[0].ticks();
    std::thread::sleep(Duration::from_secs(3));
    let used = daemons[0].ticks() - before;
    assert!(used < 30, "{used} of 300 ticks");
}

/// What is asked of a node's memory next, which is not answered yet.
fn asked_of_memory(liar: &Liar) -> (AskedOfLiar, MemoryRequest) {
    let asked = liar.asked();
    let request = PeerControl::decode(&asked.header).unwrap().request;
    (asked, request)
}

/// Grants whatever is asked for next.
fn grant(liar: &Liar, number: u32) {
    let (asked, _) = asked_of_memory(liar);
    let id = |index| ObjectId { index, generation: 1 };
    let granted = Granted {
        handle: id(number),
        region: id(1),
        bytes: 4096,
        epoch: 1,
        rights: Rights::READ,
        direct: false,
        lasting: false,
        node: None,
        from: 0,
        pieces_all: 0,
        pieces: Vec::new(),
    };
    let reply = Box::new(MemoryReply::Granted(granted).encode());
    liar.answer_control(asked.ask, &PeerReply::Own { session: id(1 << 31), reply });
}

#[test]
fn a_node_that_asks_nonsense_is_refused_and_others_are_served() {
    let secret = SecretFile::new("nonsense", "b6");
    let daemons = nodes::<2>(&secret);
    let liar = Liar::join(&daemons[0], 9, "b6", SERVICE);
    await_that("it is a guest", || state(&daemons[0], 9) == Some(MemberState::Joined));
    let bodies = [vec![], vec![0], vec![0xff; 8], vec![7; 468]];
    for (token, service) in (1..=16u16).flat_map(|it| [it; 4]).enumerate() {
        let header = bodies[token % bodies.len()].clone();
        let payload = vec![token as u8; token * 17];
        let is_answered = liar.ask_service(service, &header, payload).is_ok();
        assert!(!is_answered || service != SERVICE, "no such list");
    }
    assert!(liar.ask(&[0; 8], Vec::new()).is_ok(), "what makes sense is answered");
    assert!(daemons.iter().all(|it| joined_count(it) >= 1));
    drop(liar);
    await_that("a guest is forgotten", || state(&daemons[0], 9).is_none());
}

#[test]
fn a_node_that_takes_no_handle_back_leaves_the_others_their_calls() {
    /// More than all requests to other control planes that may wait at once.
    const HANDLES: u32 = 2100;
    let secret = SecretFile::new("returns", "b7");
    let [one, two] = nodes::<2>(&secret);
    let (mut owner, mut other) = (Program::start(&two), Program::start(&one));
    assert_eq!(owner.say("allocate kv 4096 name=kv"), "direct");
    let liar = Liar::join(&one, 77, "b7", SERVICE);
    let mut many = Program::start(&one);
    for number in 0..HANDLES {
        many.send(&format!("on 77 map key-{number} kv r"));
        grant(&liar, number);
        assert_eq!(many.hear(), "on 77");
    }
    many.kill();
    assert!(matches!(asked_of_memory(&liar).1, MemoryRequest::Unmap { .. }));
    assert_eq!(other.say("on 2 map kv kv r"), "on 2");
    assert_eq!(other.say("on 2 list"), "listed kv:4096:leased:2");
}
