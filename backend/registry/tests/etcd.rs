//! The registry in a real etcd: it does what every registry does, and says exactly what failed.

mod support;

use std::sync::Arc;

use heliostat_backend_registry::etcd::{Endpoints, Etcd};
use heliostat_backend_registry::{Operation, Outcome, Why};
use heliostat_base::clock::monotonic_ns;
use support::etcd_server::EtcdServer;
use support::{conforms, key, put, User};

fn user(endpoints: &str) -> User {
    let endpoints = Endpoints::parse(endpoints, "/test/").unwrap();
    User::new(Etcd::start(endpoints, Arc::new(|| {})).unwrap())
}

#[test]
fn it_conforms() {
    let Some(server) = EtcdServer::start("conforms") else { return };
    conforms(|| user(&server.endpoint()));
}

#[test]
fn the_second_endpoint_answers_where_the_first_does_not() {
    let Some(server) = EtcdServer::start("second") else { return };
    let mut user = user(&format!("http://127.0.0.1:1,{}", server.endpoint()));
    let revision = user.done(put("a", 0, "x"));
    user.registry.watch(key("a"), revision).unwrap();
    user.done(put("a", revision, "y"));
    assert_eq!(user.changes(1)[0].key, key("a"));
}

#[test]
fn a_server_that_is_gone_and_back_is_no_loss_and_one_that_hangs_is_unknown() {
    let Some(mut server) = EtcdServer::start("gone") else { return };
    let mut user = user(&server.endpoint());
    let first = user.done(put("a", 0, "x"));
    user.registry.watch(key("a"), first).unwrap();
    server.kill();
    let outcome = user.write(put("a", first, "y"));
    assert!(matches!(outcome, Outcome::NotDone(Why::Unreachable(_))), "{outcome:?}");
    server.restart();
    assert_eq!(user.get("a").map(|it| it.revision), Some(first));
    let second = user.done(put("a", first, "z"));
    assert_eq!(user.changes(1)[0].revision, second, "the watch went on");
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let start_ns = monotonic_ns();
    let outcome = user.ask_for(Operation::Write(put("a", second, "late")), 500_000_000);
    assert!(matches!(outcome, Outcome::Unknown(Why::Unreachable(_))), "{outcome:?}");
    assert!(monotonic_ns() - start_ns < 8_000_000_000, "the deadline holds");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
}

#[test]
fn what_is_no_etcd_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let said = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
            let _ = stream.write_all(said.as_bytes());
        }
    });
    let endpoints = Endpoints::parse(&format!("http://127.0.0.1:{port}"), "/t/").unwrap();
    let words = Etcd::check(endpoints, monotonic_ns() + 5_000_000_000).unwrap_err();
    assert!(words.contains("HTTP status 404 Not Found, and no JSON of etcd"), "{words}");
}
