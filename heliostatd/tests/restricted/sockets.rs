//! Delegated sockets: a sealed program's session has none, and is told so; a confined one keeps within its list.

use std::os::fd::AsRawFd;

use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::{Destination, Services};
use heliostat_abi::socket::{Access, SocketRequest};

fn ask(client: &mut Client, request: SocketRequest, fds: &[i32]) -> Reply {
    client.ask_with(&Request::Own(request.encode()), fds).0
}

fn everywhere() -> Destination {
    Destination { host: None, ports: (1, u16::MAX) }
}

#[test]
fn a_sealed_programs_session_asks_in_vain_whatever_its_policy_grants() {
    let daemon = Daemon::start();
    let mut client = daemon.visit();
    assert_eq!(client.ask(&Request::Allow { destination: everywhere() }).0, Reply::Done);
    let services = Services::STREAMS.and(Services::FILES).and(Services::DELEGATION);
    let pid = std::process::id();
    assert_eq!(client.ask(&Request::Restrict { services, pid }).0, Reply::Done);
    client.hello();
    let folder = std::fs::File::open("/tmp").unwrap();
    let shown = [folder.as_raw_fd()];
    let asked = [
        (SocketRequest::Session, &shown[..]),
        (SocketRequest::Reach(Access::Connect, everywhere()), &[]),
        (SocketRequest::Reach(Access::Listen, everywhere()), &[]),
        (SocketRequest::Folder { reads: true, writes: false }, &shown[..]),
        (SocketRequest::Confine, &[]),
    ];
    for (request, fds) in asked {
        let Reply::Refused { code, .. } = ask(&mut client, request, fds) else {
            panic!("{request:?} is refused");
        };
        assert_eq!(code, Code::Denied, "{request:?}");
    }
    let explained = daemon.visit().text(&Request::Explain { pid });
    assert!(
        explained.contains("the supervisor connects and binds as the policy says"),
        "{explained}"
    );
    let status = daemon.status();
    assert_eq!(
        (&status["sockets"]["sessions"], &status["sockets"]["confined"]),
        (&0.into(), &0.into())
    );
    assert!(status["denials"].to_string().contains("socket_session"), "{}", status["denials"]);
}

#[test]
fn folders_within_reach_count_until_their_session_ends() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let folder = std::fs::File::open("/").unwrap();
    let request = SocketRequest::Folder { reads: true, writes: false };
    for _ in 0..3 {
        assert_eq!(ask(&mut client, request, &[folder.as_raw_fd()]), Reply::Done);
    }
    let used = || daemon.status()["quotas"]["ConfinedNames"]["used"].clone();
    assert_eq!(used(), 3);
    drop(client);
    await_that("its folders are let go of", || used() == 0);
}

#[test]
fn a_list_is_closed_for_good_and_has_its_limit() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    for _ in 0..64 {
        let reach = SocketRequest::Reach(Access::Listen, everywhere());
        assert_eq!(ask(&mut client, reach, &[]), Reply::Done);
    }
    let full = ask(&mut client, SocketRequest::Reach(Access::Connect, everywhere()), &[]);
    assert!(matches!(full, Reply::Refused { code: Code::Full, .. }), "{full:?}");
    assert_eq!(ask(&mut client, SocketRequest::Confine, &[]), Reply::Done);
    let file = std::fs::File::open("/dev/null").unwrap();
    let later = [
        ask(&mut client, SocketRequest::Reach(Access::Connect, everywhere()), &[]),
        ask(&mut client, SocketRequest::Folder { reads: true, writes: true }, &[file.as_raw_fd()]),
        ask(&mut client, SocketRequest::Confine, &[]),
    ];
    for answer in later {
        assert!(matches!(answer, Reply::Refused { code: Code::BadState, .. }), "{answer:?}");
    }
}
