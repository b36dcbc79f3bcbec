//! What needs a second process: death, other users, other network namespaces.
//!
//! The second process is this test program again, told by the environment which part it plays;
//! it says on standard output how that went.

mod support;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::Request;
use heliostat_base::packet::PacketSocket;
use rustix::process::Signal;
use support::*;

const ROLE: &str = "HELIOSTATD_TEST_ROLE";
const SOCKET: &str = "HELIOSTATD_TEST_SOCKET";
const ADDRESS: &str = "HELIOSTATD_TEST_ADDRESS";
/// A user that owns nothing on any machine.
const NOBODY: u32 = 65534;

/// Not a test: the part that the second process plays. Does nothing when run by itself.
#[test]
fn second_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut client = Client::connect(&std::env::var(SOCKET).unwrap());
    let address = std::env::var(ADDRESS).unwrap();
    match role.as_str() {
        "hold" => {
            client.hello();
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let (_, own) = client.listen(&socket);
            (0..10).for_each(|_| assert!(client.open(own).is_ok()));
            println!("said: holding");
            std::thread::sleep(WATCHDOG);
        }
        "listen" => {
            client.hello();
            let socket = TcpListener::bind(&address).unwrap();
            let reply = client.ask_with(&Request::Listen, &[socket.as_raw_fd()]).0;
            println!("said: {reply:?}");
            std::thread::sleep(WATCHDOG);
        }
        "open" => {
            client.hello();
            let wanted = NetAddress::new(address.parse().unwrap());
            println!("said: {:?}", client.open(wanted).map(|(entry, _)| entry.peer_uid));
        }
        "greet" => {
            println!("said: {:?}", client.ask(&Request::Hello { program: "x".into() }).0);
        }
        "administer" => {
            let pid = std::os::unix::process::parent_id();
            let replies = [Request::Stop, Request::Revoke { pid }, Request::Explain { pid }]
                .map(|request| client.refusal(&request, &[]));
            let sessions = client.text(&Request::Status);
            let sees = sessions.contains(&format!("\"pid\":{pid},\"ports\""));
            println!("said: {replies:?} sees {sees}");
        }
        other => panic!("no role {other}"),
    }
}

/// Starts the second process; `before` may change who or where it is.
fn second(
    daemon: &Daemon,
    role: &str,
    address: &str,
    through: &[&str],
    before: impl Fn(&mut Command),
) -> Option<(Child, String)> {
    let own = std::env::current_exe().unwrap();
    let mut command = match through.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(own);
            command
        }
        None => Command::new(own),
    };
    command.args(["--exact", "second_process", "--nocapture"]);
    command.env(ROLE, role).env(SOCKET, daemon.socket()).env(ADDRESS, address);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    before(&mut command);
    let mut child = command.spawn().ok()?;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = lines.filter_map(|line| {
        line.unwrap_or_default().split_once("said: ").map(|(_, said)| said.to_owned())
    });
    match said.next() {
        Some(said) => Some((child, said)),
        None => {
            child.wait().unwrap();
            None
        }
    }
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs the second process as another user; `None` where this test may not do that.
fn as_nobody(daemon: &Daemon, role: &str, address: &str) -> Option<String> {
    let answer = second(daemon, role, address, &[], |command| {
        command.uid(NOBODY).gid(NOBODY);
    });
    if answer.is_none() {
        eprintln!("skipped: cannot become another user here");
    }
    answer.map(|(child, said)| {
        end(child);
        said
    })
}

#[test]
fn a_killed_process_leaves_nothing() {
    let daemon = Daemon::start();
    let before = daemon.descriptors();
    let (child, said) = second(&daemon, "hold", "", &[], |_| ()).unwrap();
    assert_eq!(said, "holding");
    let status = daemon.status();
    assert_eq!(
        (&status["channels"], status["sessions"].as_array().map(Vec::len)),
        (&10.into(), Some(1))
    );
    end(child);
    await_that("nothing is left", || {
        let status = daemon.status();
        status["channels"] == 0
            && status["sessions"].as_array().unwrap().is_empty()
            && status["ports"].as_array().unwrap().is_empty()
    });
    await_that("its descriptors are closed", || daemon.descriptors() == before);
}

#[test]
fn the_same_address_in_another_network_namespace_is_another_name() {
    let daemon = Daemon::start();
    let number = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let address = format!("0.0.0.0:{number}");
    let elsewhere = second(&daemon, "listen", &address, &["unshare", "-n"], |_| ());
    let Some((child, said)) = elsewhere else {
        eprintln!("skipped: no new network namespace here");
        return;
    };
    assert!(said.starts_with("Listening"), "{said}");
    let wanted = NetAddress::new(format!("127.0.0.1:{number}").parse().unwrap());
    let (mut client, _) = daemon.session();
    assert!(client.open(wanted).is_err());
    let (near, said) = second(&daemon, "listen", &address, &[], |_| ()).unwrap();
    assert!(said.starts_with("Listening"), "{said}");
    assert!(client.open(wanted).is_ok());
    assert_eq!(daemon.status()["ports"].as_array().map(Vec::len), Some(2));
    end(child);
    end(near);
}

#[test]
fn another_user_connects_only_by_a_rule() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    server.listen(&socket);
    if rustix::process::geteuid().is_root() {
        let Some(said) = as_nobody(&daemon, "open", &address) else { return };
        assert_eq!(said, "Err((Denied, 0))");
        let rule = format!("[[rule]]\naction = \"allow\"\nusers = [{NOBODY}]\n");
        std::fs::write(daemon.folder().join("config.toml"), rule).unwrap();
        daemon.signal(Signal::HUP);
        await_that("the rule is in force", || daemon.status()["rules"] == 1);
        assert_eq!(as_nobody(&daemon, "open", &address).as_deref(), Some("Ok(0)"));
    }
}

#[test]
fn another_user_administers_nothing_and_sees_only_its_own() {
    let daemon = Daemon::start();
    let _session = daemon.session();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root becomes another user");
        return;
    }
    let Some(said) = as_nobody(&daemon, "administer", "") else { return };
    assert_eq!(said, "[Denied, Denied, Denied] sees false");
    assert_eq!(daemon.visit().ask(&Request::Status).1.len(), 1);
}

#[test]
fn a_users_daemon_serves_that_user_only() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root becomes another user");
        return;
    }
    // The daemon as nobody, this process as root: root may look, not take part.
    let folder = std::env::temp_dir().join(format!("heliostatd-nobody-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let socket = folder.join("control.sock");
    let started = Command::new(env!("CARGO_BIN_EXE_heliostatd"))
        .args(["--socket", socket.to_str().unwrap()])
        .uid(NOBODY)
        .gid(NOBODY)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut daemon) = started else {
        eprintln!("skipped: cannot become another user here");
        return;
    };
    // The name is there a moment before anybody listens.
    let answers = || PacketSocket::connect(socket.to_str().unwrap(), 10_000).is_ok();
    await_that("it listens", || answers() || daemon.try_wait().unwrap().is_some());
    let mut client = Client::connect(socket.to_str().unwrap());
    assert!(client.text(&Request::Status).contains("boot"));
    let hello = Request::Hello { program: "x".into() };
    assert_eq!(client.refusal(&hello, &[]), heliostat_abi::code::Code::Denied);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
