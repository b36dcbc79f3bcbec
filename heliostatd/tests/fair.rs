//! A user who keeps the event loop busy waits, and nobody else does.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use heliostat_abi::limits::REPORT_ENTRIES_MAX;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::Request;
use heliostat_abi::session::report::{self, Entry, Path};
use serde_json::Value;
use support::beside::*;
use support::ends::Ends;
use support::files::{lease, BYTES};
use support::*;

const FAST: &str = "[limits]\nconnects_per_second = 1000000\nconnects_burst = 1000000\n";
/// Sessions of the attacker.
const MANY: usize = 256;

/// As a stub lists its connections, each one more.
fn list(welcome: &Welcome, count: usize) {
    let address = |port: usize| {
        let port = 1024 + port % 60_000;
        NetAddress::new(format!("127.0.0.1:{port}").parse().unwrap())
    };
    for place in 0..count {
        let (path, accepted, fd) = (Path::Direct, false, place as i32);
        let (local, peer) = (address(place), address(place + 1));
        let entry = Entry { fd, path, accepted, local, peer, received: 0, sent: 0 };
        welcome.report.copy_in(report::entry(place), &entry.encode()).unwrap();
    }
}

/// How many requests of a kind the daemon has served, by its metrics.
fn served(metrics: &str, kind: &str) -> u64 {
    let line = format!("heliostat_requests_total{{kind=\"{kind}\"}} ");
    let found = metrics.lines().find_map(|it| it.strip_prefix(&line));
    found.unwrap().parse().unwrap()
}

/// Asks for texts on all these connections at once, again and again, until `goes_on` ends.
fn keep_busy(clients: &mut [Client], request: &Request, goes_on: &AtomicBool) {
    let ask = |client: &Client| client.socket.send(&request.encode(1), &[]).unwrap();
    clients.iter().for_each(&ask);
    while goes_on.load(Ordering::Relaxed) {
        for client in &mut *clients {
            drop(client.receive().unwrap());
            ask(client);
        }
    }
}

#[test]
fn who_asks_much_on_many_connections_has_no_more_turns_than_who_asks_little() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit(FAST);
    let mut asker = daemon.visit();
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let ends = Ends(&goes_on);
        scope.spawn(|| {
            as_user(ATTACKERS[0], || {
                let mut clients: Vec<_> = (0..MANY).map(|_| daemon.session().0).collect();
                keep_busy(&mut clients, &Request::Status, &goes_on);
            })
        });
        let mut before = 0;
        await_that("the attacker is served", || {
            before = served(&asker.text(&Request::Metrics), "status");
            before > 2 * MANY as u64
        });
        // Two questions at once: between the answers others have a turn, by the loop's order alone.
        let between: Vec<_> = (0..9)
            .map(|_| {
                (0..2).for_each(|_| asker.socket.send(&Request::Metrics.encode(7), &[]).unwrap());
                let [first, second] = [(); 2].map(|()| served(&text_of(&mut asker), "status"));
                second - first
            })
            .collect();
        drop(ends);
        let least = between.iter().min().unwrap();
        assert!(*least < MANY as u64 / 4, "{between:?}");
    });
}

fn text_of(client: &mut Client) -> String {
    use std::os::fd::AsRawFd;
    let (_, _, fds) = client.receive().unwrap();
    std::fs::read_to_string(format!("/proc/self/fd/{}", fds[0].as_raw_fd())).unwrap()
}

#[test]
fn a_process_with_many_long_reports_is_explained_in_a_bounded_text() {
    let daemon = Daemon::with(FAST, &[]);
    let sessions: Vec<_> = (0..4).map(|_| daemon.session()).collect();
    sessions.iter().for_each(|(_, welcome)| list(welcome, REPORT_ENTRIES_MAX));
    let pid = std::process::id();
    let text = daemon.visit().text(&Request::Explain { pid });
    let explained: Value = serde_json::from_str(&text).unwrap();
    let listed = explained["connections"].as_array().unwrap().len();
    assert!(listed <= REPORT_ENTRIES_MAX, "{listed}");
    assert_eq!(explained["all_listed"], false);
    let (_one, welcome) = daemon.session();
    list(&welcome, 3);
    // As a stub that says how many places it has used.
    welcome.report.copy_in(report::ENTRIES_USED, &4u32.to_ne_bytes()).unwrap();
    drop(sessions);
    await_that("one is left", || {
        let text = daemon.visit().text(&Request::Explain { pid });
        let explained: Value = serde_json::from_str(&text).unwrap();
        explained["all_listed"] == true && explained["connections"].as_array().unwrap().len() == 3
    });
}

/// A file's writers come as fast as they can: each ends a lease.
#[test]
fn leases_that_are_broken_in_storms_delay_nobody() {
    if !may_become_others() {
        return;
    }
    if !may_lease_others_files() {
        return eprintln!("skipped: no CAP_LEASE here, so that users get no lease of root's");
    }
    let daemon = Daemon::as_unit(FAST);
    let beside = Beside::start(&daemon);
    let folder = daemon.folder().join("storm");
    std::fs::create_dir_all(&folder).unwrap();
    let paths: Vec<_> = (0..200).map(|number| folder.join(number.to_string())).collect();
    for path in &paths {
        write_file(path, &[7; BYTES]);
        std::os::unix::fs::chown(path, Some(ATTACKERS[0]), None).unwrap();
    }
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let ends = Ends(&goes_on);
        scope.spawn(|| {
            as_user(ATTACKERS[0], || {
                let (mut client, _) = daemon.session();
                while goes_on.load(Ordering::Relaxed) {
                    for path in &paths {
                        let file = std::fs::File::open(path).unwrap();
                        let _ = lease(&mut client, &file);
                        drop(file);
                        drop(std::fs::OpenOptions::new().write(true).open(path).unwrap());
                    }
                }
            })
        });
        (0..10).for_each(|_| beside.await_turn());
        drop(ends);
    });
    beside.finish(&daemon);
}

/// A daemon that serves its metrics at an address of its own.
fn with_metrics() -> (Daemon, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!("[daemon]\nmetrics_listen = \"{free}\"\n");
    (Daemon::as_unit(&config), free)
}

fn scrape(address: SocketAddr) -> String {
    scrape_path(address, "/metrics")
}

fn scrape_path(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn visitors_of_the_metrics_who_never_ask_or_never_read_take_little_and_keep_nobody_out() {
    let (daemon, address) = with_metrics();
    assert!(scrape(address).starts_with("HTTP/1.1 200 OK\r\n"));
    let before = daemon.descriptors();
    let mut silent: Vec<_> = (0..400).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in silent.iter_mut().step_by(2) {
        let _ = stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
    }
    let text = scrape(address);
    assert!(text.contains("\nheliostat_sessions ") && text.ends_with("# EOF\n"), "{text}");
    let taken = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    assert!(taken < before + 100, "{before} descriptors became {taken}");
    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap().count();
    assert!(threads < 50, "{threads} threads");
}

#[test]
fn who_scrapes_all_the_time_does_not_use_up_what_root_may_ask() {
    let (_daemon, address) = with_metrics();
    (0..200).for_each(|_| assert!(scrape(address).starts_with("HTTP/1.1 200 OK\r\n")));
    let text = scrape(address);
    // Each second it is asked five times at most.
    let most = 10 + 5 * uptime(&text);
    assert!(served(&text, "metrics") <= most, "{text}");
    assert!(scrape_path(address, "/other").starts_with("HTTP/1.1 404 "));
}

fn uptime(metrics: &str) -> u64 {
    let found = metrics.lines().find_map(|it| it.strip_prefix("heliostat_uptime_seconds "));
    found.unwrap().parse().unwrap()
}
