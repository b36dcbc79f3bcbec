//! Every limit is an ordinary answer that names its number.

use std::net::TcpListener;
use std::os::fd::AsRawFd;

use crate::support::beside::{as_user, may_become_others, ATTACKERS};
use crate::support::*;
use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use rustix::process::{getrlimit, prlimit, Pid, Resource, Rlimit};

fn listener() -> (TcpListener, NetAddress) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = NetAddress::new(socket.local_addr().unwrap());
    (socket, address)
}

#[test]
fn channels_of_one_pair_are_limited() {
    let daemon = Daemon::with("[limits]\nchannels_per_pair = 2\n", &[]);
    let (mut server, _) = daemon.session();
    let (mut client, _) = daemon.session();
    let (socket, address) = listener();
    server.listen(&socket);
    assert!(client.open(address).is_ok() && client.open(address).is_ok());
    assert_eq!(client.open(address).err(), Some((Code::Full, 2)));
    assert!(daemon.session().0.open(address).is_ok());
}

#[test]
fn shared_bytes_of_one_session_are_limited() {
    let config = "[limits]\nshared_bytes_per_session = 1048576\n\
                  [channel]\nslots = 16\nring_bytes = 16384\n";
    let daemon = Daemon::with(config, &[]);
    let (mut server, _) = daemon.session();
    let (mut client, _) = daemon.session();
    let (socket, address) = listener();
    server.listen(&socket);
    let (entry, _) = client.open(address).unwrap();
    assert_eq!((entry.slots, entry.ring_bytes), (16, 16384));
    assert_eq!(client.open(address).err(), Some((Code::Full, 1 << 20)));
}

#[test]
fn listening_addresses_of_one_session_are_limited() {
    let daemon = Daemon::with("[limits]\nports_per_session = 1\n", &[]);
    let (mut server, _) = daemon.session();
    let ((first, _), (second, _)) = (listener(), listener());
    server.listen(&first);
    server.listen(&first);
    let fd = second.as_raw_fd();
    let reply = server.ask_with(&Request::Listen, &[fd]).0;
    assert_eq!(reply, full(Thing::Ports, Side::Session, 1));
}

#[test]
fn sessions_of_one_user_are_limited_and_who_has_all_may_ask_for_the_status() {
    let daemon = Daemon::with("[limits]\nsessions_per_user = 3\n", &[]);
    let _held: Vec<_> = (0..3).map(|_| daemon.session()).collect();
    let mut visitor = daemon.visit();
    let reply = visitor.ask(&Request::Hello { program: "x".into() }).0;
    assert_eq!(reply, full(Thing::Sessions, Side::User, 3));
    assert!(visitor.text(&Request::Status).contains("quotas"));
    assert_eq!(daemon.status()["quotas"]["Sessions"]["used"], 3);
}

const SLOWLY: &str = "[limits]\nconnects_per_second = 1\nconnects_burst = 40\n";

fn hello(client: &mut Client) -> Reply {
    client.ask(&Request::Hello { program: "x".into() }).0
}

#[test]
fn connections_come_at_a_rate() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::with(SLOWLY, &[]);
    let refused = as_user(ATTACKERS[0], || {
        let answers = (0..60).map(|_| {
            let mut visitor = daemon.visit();
            let asked = visitor.socket.send(&Request::Status.encode(1), &[]);
            let answer = visitor.receive();
            asked.is_err() || !matches!(answer, Ok((Reply::Text { .. }, _, _)))
        });
        answers.filter(|it| *it).count()
    });
    assert!(refused.unwrap() >= 10);
}

#[test]
fn whose_programs_connect_too_often_may_look_and_end_the_control_plane_as_root_and_as_owner() {
    let daemon = Daemon::with(SLOWLY, &[]);
    let answers: Vec<_> = (0..60).map(|_| hello(&mut daemon.visit())).collect();
    let refused = answers.iter().filter(|reply| matches!(reply, Reply::Refused { .. }));
    assert_eq!(refused.clone().next_back(), Some(&full(Thing::ConnectRate, Side::User, 40)));
    assert!(refused.count() >= 10 && matches!(answers[0], Reply::Welcome { .. }));
    assert!(daemon.status()["quotas"].is_object());
    assert!(daemon.visit().text(&Request::Metrics).contains("heliostat_refusals_total"));
    assert_eq!(daemon.visit().refusal(&Request::Explain { pid: 1 }, &[]), Code::NotFound);
    assert_eq!(daemon.visit().ask(&Request::Stop).0, Reply::Done);
}

#[test]
fn a_sealed_program_that_connects_all_the_time_leaves_connections_to_its_user() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::with(SLOWLY, &[]);
    as_user(ATTACKERS[0], || {
        let restrict = Request::Restrict { services: Services::STREAMS, pid: 1 };
        let answers: Vec<_> = (0..30).map(|_| daemon.visit().ask(&restrict).0).collect();
        let let_in = answers.iter().filter(|reply| **reply == Reply::Done).count();
        assert!((10..15).contains(&let_in), "a quarter, and one each second: {answers:?}");
        let limit = full(Thing::ConnectRate, Side::SealedProgram, 10);
        assert!(answers.contains(&limit), "{answers:?}");
        (0..25).for_each(|_| drop(daemon.session()));
    })
    .unwrap();
}

/// A daemon that sees this list of subordinate users.
fn with_subordinates(list: &str) -> Option<Daemon> {
    let text = |path: &str| std::ffi::CString::new(path).unwrap();
    let path = place().join(format!("heliostatd-subuid-{}", std::process::id()));
    std::fs::write(&path, list).unwrap();
    std::fs::OpenOptions::new().append(true).create(true).open("/etc/subuid").ok()?;
    let (from, to) = (text(path.to_str().unwrap()), text("/etc/subuid"));
    let daemon = Daemon::beneath("[limits]\nsessions_per_user = 5\n", move || {
        let none = std::ptr::null();
        // SAFETY: the two paths end, and outlive the calls.
        let answer = unsafe {
            libc::unshare(libc::CLONE_NEWNS)
                | libc::mount(
                    none,
                    c"/".as_ptr(),
                    none,
                    libc::MS_REC | libc::MS_PRIVATE,
                    none.cast(),
                )
                | libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_BIND, none.cast())
        };
        if answer == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    });
    std::fs::remove_file(path).unwrap();
    Some(daemon)
}

#[test]
fn who_is_many_users_by_subordinate_numbers_takes_no_more_than_one() {
    if !may_become_others() {
        return;
    }
    let mounts = std::process::Command::new("unshare").args(["--mount", "true"]).output();
    if !mounts.is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: no mount namespace may be made here");
    }
    let Some(daemon) = with_subordinates("65531:200000:65536\n") else { return };
    let greet = |uid| {
        as_user(uid, || {
            let mut client = daemon.visit();
            (hello(&mut client), client)
        })
    };
    let held: Vec<_> = (0..5).map(|number| greet(200_000 + number).unwrap()).collect();
    assert!(held.iter().all(|(reply, _)| matches!(reply, Reply::Welcome { .. })));
    let refused = full(Thing::Sessions, Side::User, 5);
    for uid in [265_535, 65_531] {
        assert_eq!(greet(uid).unwrap().0, refused, "{uid}");
    }
    assert!(matches!(greet(265_536).unwrap().0, Reply::Welcome { .. }));
}

/// Lets the daemon have no more descriptors than it has; the limit, and what it was before.
fn fill(daemon: &Daemon) -> (u64, Rlimit) {
    let taken = |number: &u64| std::fs::exists(format!("/proc/{}/fd/{number}", daemon.pid()));
    let full = (0..).find(|number| !taken(number).unwrap()).unwrap();
    let pid = Pid::from_raw(daemon.pid() as i32);
    let maximum = getrlimit(Resource::Nofile).maximum;
    (full, prlimit(pid, Resource::Nofile, Rlimit { current: Some(full), maximum }).unwrap())
}

#[test]
fn who_shows_something_while_there_are_no_descriptors_is_refused_and_goes_on() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let (socket, _) = listener();
    daemon.descriptors(); // until what the greeting left is closed
    let (limit, before) = fill(&daemon);
    // More than a client's malformed requests may be, and no more than are kept back.
    let mut refused = 0;
    await_that("it is refused a dozen times", || {
        match client.ask_with(&Request::Listen, &[socket.as_raw_fd()]).0 {
            // What the one before had shown was closed in this very moment.
            Reply::Listening { .. } => {}
            reply => {
                assert_eq!(reply, full(Thing::Descriptors, Side::Node, limit));
                refused += 1;
            }
        }
        refused == 12
    });
    prlimit(Pid::from_raw(daemon.pid() as i32), Resource::Nofile, before).unwrap();
    client.listen(&socket);
}

#[test]
fn rules_refuse_names_by_pattern() {
    let (socket, address) = listener();
    let config = format!(
        "[[rule]]\naction = \"deny\"\nrights = [\"connect\"]\nnames = [\"/net/tcp/*:{}\"]\n",
        address.port
    );
    let daemon = Daemon::with(&config, &[]);
    let (mut server, _) = daemon.session();
    let (mut client, _) = daemon.session();
    server.listen(&socket);
    assert_eq!(client.open(address).err(), Some((Code::Denied, 0)));
    let (other, free) = listener();
    server.listen(&other);
    assert!(client.open(free).is_ok());
}

#[test]
fn listening_can_be_denied() {
    let config = "[[rule]]\naction = \"deny\"\nrights = [\"listen\"]\n";
    let daemon = Daemon::with(config, &[]);
    let (mut server, _) = daemon.session();
    let (socket, _) = listener();
    let fd = socket.as_raw_fd();
    assert_eq!(server.refusal(&Request::Listen, &[fd]), Code::Denied);
}
