//! What the rules deny is told once for each kind, and counted.

use std::fs::File;
use std::net::TcpListener;

use crate::support::delegated::Delegate;
use crate::support::files::Sample;
use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::{Reply, Request};

const NO_CONNECTIONS: &str = "[[rule]]\naction = \"deny\"\nrights = [\"connect\"]\n";

#[test]
fn a_denial_that_repeats_is_one_kind_in_log_and_status() {
    let log = place().join(format!("heliostatd-denials-{}.log", std::process::id()));
    let daemon = Daemon::with(NO_CONNECTIONS, &["--log", log.to_str().unwrap()]);
    let (mut server, _) = daemon.session();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = NetAddress::new(socket.local_addr().unwrap());
    server.listen(&socket);
    for _ in 0..12 {
        assert_eq!(daemon.session().0.open(address).err(), Some((Code::Denied, 0)));
    }
    let told = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let lines: Vec<_> = told.lines().filter(|line| line.contains("denied")).collect();
    // The first, and the tenth.
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[1].contains("count=10") && lines[1].contains("rule 1"), "{}", lines[1]);
    let denials = &daemon.status()["denials"];
    assert_eq!((denials.as_array().unwrap().len(), &denials[0]["count"]), (1, &12.into()));
    assert_eq!(denials[0]["name"], format!("/net/tcp/{address}"));
}

#[test]
fn who_delegates_and_shows_denied_files_all_the_time_does_not_fill_the_log() {
    let log = place().join(format!("heliostatd-flood-{}.log", std::process::id()));
    let rule = "[[rule]]\naction = \"deny\"\nrights = [\"read\"]\n";
    let daemon = Daemon::with(rule, &["--log", log.to_str().unwrap()]);
    let sample = Sample::new(&daemon, "denied");
    for _ in 0..12 {
        let mut session = Delegate::new(&daemon);
        let denied = session.show(&File::open(&sample.0).unwrap(), false);
        assert_eq!(denied.err(), Some(i64::from(libc::EACCES)));
        assert_eq!(session.client.ask(&Request::EndDelegate).0, Reply::Done);
    }
    let told = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    // The first denial, and the tenth.
    assert_eq!(told.lines().filter(|line| line.contains("denied")).count(), 2, "{told}");
    assert!(told.lines().count() < 8, "{told}");
    let denial = &daemon.status()["denials"][0];
    assert_eq!((&denial["right"], &denial["count"]), (&"read".into(), &12.into()));
    assert_eq!(denial["name"], format!("/file{}", sample.0.display()));
}
