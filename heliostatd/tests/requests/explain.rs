//! What `explain` says to whom: of its own processes everything, of others' only what both ends share.

use std::net::TcpListener;

use crate::support::beside::*;
use crate::support::*;
use heliostat_abi::code::{Code, Native};
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::report::{self, Entry, Path};
use heliostat_abi::session::restriction::Services;
use serde_json::Value;

/// Users of the two ends.
const CLIENT: u32 = ATTACKERS[0];
const SERVER: u32 = ATTACKERS[1];

fn address(text: &str) -> NetAddress {
    NetAddress::new(text.parse().unwrap())
}

/// A session of a user that lists one connection.
fn listing(daemon: &Daemon, uid: u32, ends: [&str; 2], path: Path) -> (Client, Welcome) {
    let (client, welcome) = as_user(uid, || daemon.session()).unwrap();
    let [local, peer] = ends.map(address);
    let entry = Entry { fd: 3, path, accepted: false, local, peer, received: 1, sent: 2 };
    welcome.report.copy_in(report::entry(0), &entry.encode()).unwrap();
    (client, welcome)
}

/// What a user is told of this very process.
fn explained(daemon: &Daemon, uid: u32) -> Value {
    let pid = std::process::id();
    let text = as_user(uid, || daemon.visit().text(&Request::Explain { pid })).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Both ends have sessions of the same process here, by two users: each is told of its own.
#[test]
fn the_other_end_is_told_and_whose_it_is_only_to_who_may_see_it() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit("");
    let ends = ["127.0.0.1:9000", "127.0.0.1:80"];
    let native = Path::Native(Native::NoOffer);
    let _client = listing(&daemon, CLIENT, ends, native);
    let own = Path::Native(Native::PolledBefore);
    let _server = listing(&daemon, SERVER, [ends[1], ends[0]], own);
    let told = explained(&daemon, CLIENT);
    let [connection] = told["connections"].as_array().unwrap().as_slice() else {
        panic!("{told}");
    };
    assert_eq!(connection["local"], ends[0]);
    let wanted = format!("at the other end: {}", Native::PolledBefore.text());
    assert_eq!(connection["reason_text"], wanted, "the reason is both ends'");
    let peer = &connection["peers"][0];
    assert_eq!(peer["reason"], "PolledBefore");
    for hidden in ["pid", "uid", "program"] {
        assert!(peer[hidden].is_null(), "{peer}");
    }
    let by_root = explained(&daemon, 0);
    assert_eq!(by_root["connections"].as_array().unwrap().len(), 2);
    let peers = by_root["connections"].as_array().unwrap().iter().map(|it| &it["peers"][0]["uid"]);
    let peers: Vec<_> = peers.cloned().collect();
    assert_eq!(peers, [Value::from(SERVER), Value::from(CLIENT)]);
}

#[test]
fn a_process_of_another_user_is_not_explained_and_one_without_a_session_is_not_found() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit("");
    let pid = std::process::id();
    let ask =
        |uid, pid| as_user(uid, || daemon.visit().refusal(&Request::Explain { pid }, &[])).unwrap();
    assert_eq!(ask(CLIENT, pid), Code::NotFound);
    let _own = listing(&daemon, SERVER, ["127.0.0.1:1", "127.0.0.1:2"], Path::Direct);
    assert_eq!(ask(CLIENT, pid), Code::Denied);
    assert_eq!(ask(NEIGHBOUR, daemon.pid()), Code::NotFound);
    assert_eq!(explained(&daemon, SERVER)["connections"].as_array().unwrap().len(), 1);
}

/// Anybody may restrict a connection of its own under any process's number.
#[test]
fn who_says_that_it_is_another_users_process_is_not_seen_there() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit("");
    let pid = daemon.pid();
    let claim = |uid, program: &str| {
        as_user(uid, || {
            let mut client = daemon.visit();
            let restrict = Request::Restrict { services: Services::STREAMS, pid };
            assert_eq!(client.ask(&restrict).0, Reply::Done);
            let hello = Request::Hello { program: program.into() };
            assert!(matches!(client.ask(&hello).0, Reply::Welcome { .. }));
            client
        })
        .unwrap()
    };
    let _victim = claim(SERVER, "victim");
    let _false = claim(CLIENT, "false");
    let told = |uid| {
        let text = as_user(uid, || daemon.visit().text(&Request::Explain { pid })).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["program"].clone()
    };
    assert_eq!((told(SERVER), told(CLIENT)), ("victim".into(), "false".into()));
    let sealed = as_user(SERVER, || {
        let mut client = daemon.visit();
        client.ask(&Request::Restrict { services: Services::STREAMS, pid });
        client.refusal(&Request::Explain { pid }, &[])
    });
    assert_eq!(sealed, Some(Code::Denied));
}

/// What it says of itself is shown without what would act on a terminal.
#[test]
fn a_programs_name_has_no_escapes() {
    let daemon = Daemon::start();
    let mut client = daemon.visit();
    let program = "a\u{1b}[2J\u{9b}b\u{202e}c\u{2028}d".to_owned();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(matches!(client.ask(&Request::Hello { program }).0, Reply::Welcome { .. }));
    client.listen(&socket);
    assert_eq!(daemon.status()["sessions"][0]["program"], "a?[2J?b?c?d");
}
