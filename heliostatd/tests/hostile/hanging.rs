//! File systems whose servers do not answer: opening and closing there is the loss of who does it.

use std::fs::OpenOptions;
use std::os::fd::{IntoRawFd, RawFd};
use std::path::Path;

use crate::support::beside::*;
use crate::support::delegated::*;
use crate::support::files::lease;
use crate::support::fuse::{self, Hanging};
use crate::support::*;
use heliostat_abi::code::{Code, Side, Thing, Unmapped};
use heliostat_abi::file::delegated::{OpKind, Operation, READ};
use heliostat_abi::session::record::{Bound, Reply, Request};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};

/// Files that each attacker shows: as many as used to hang every thread that closes.
const FILES: usize = 32;

/// A daemon and a file system in its folder, which hangs in these operations.
fn stage(hangs: &'static [u32]) -> Option<(Daemon, Hanging)> {
    if !may_become_others() {
        return None;
    }
    let daemon = Daemon::as_unit("");
    let found = Hanging::mount(&daemon.folder().join("hanging"), hangs);
    if found.is_none() {
        eprintln!("skipped: no FUSE here");
    }
    Some((daemon, found?))
}

/// A file of the file system, which is never closed here: that would hang as well. It goes with the
/// file system.
fn opened(path: &Path) -> RawFd {
    OpenOptions::new().read(true).open(path).unwrap().into_raw_fd()
}

#[test]
fn files_whose_close_never_ends_hang_the_threads_of_their_users_only() {
    let Some((daemon, hanging)) = stage(&[fuse::FLUSH]) else { return };
    let beside = Beside::start(&daemon);
    // Whoever is started meanwhile would close them as well.
    let guard = no_starts();
    let held: Vec<_> = ATTACKERS
        .into_iter()
        .chain([60_001, 60_002, 60_003])
        .map(|uid| {
            as_user(uid, || {
                let (mut client, _) = daemon.session();
                for number in 0..FILES {
                    let fd = opened(&hanging.path(&format!("{uid}-{number}")));
                    let reply = client.ask_with(&Request::Lease, &[fd]).0;
                    assert_eq!(reply, Reply::NotLeased { reason: Unmapped::FileSystem });
                }
                client
            })
            .unwrap()
        })
        .collect();
    await_that("closers hang", || hanging.waiting() >= 5 * 8);
    (0..3).for_each(|_| beside.await_turn());
    // All that people ask is answered, to those who hang as well.
    let own = as_user(ATTACKERS[0], || daemon.visit().text(&Request::Status)).unwrap();
    assert!(own.contains("\"sessions\""));
    let pid = std::process::id();
    assert!(daemon.visit().text(&Request::Explain { pid }).contains("\"connections\""));
    assert!(daemon.visit().text(&Request::Metrics).contains("heliostat_sessions "));
    assert_eq!(hanging.waiting(), 5 * 8, "each user has its share of the threads");
    drop(held);
    beside.finish(&daemon);
    drop((hanging, guard));
}

/// What waits to be closed counts as what is open: who shows such files for ever is refused.
#[test]
fn files_that_wait_to_be_closed_count_among_their_users_descriptors() {
    let Some((daemon, hanging)) = stage(&[fuse::FLUSH]) else { return };
    let guard = no_starts();
    as_user(ATTACKERS[0], || {
        let (mut client, _) = daemon.session();
        let fd = opened(&hanging.path("one"));
        let ask = |_| match client.ask_with(&Request::Lease, &[fd]).0 {
            Reply::NotLeased { .. } => None,
            Reply::Refused { code, bound, .. } => Some((code, bound)),
            reply => panic!("{reply:?}"),
        };
        let refused = (0..unit::descriptors()).find_map(ask);
        assert_eq!(refused, Some((Code::Full, Bound::new(Thing::Descriptors, Side::User))));
    })
    .unwrap();
    drop(daemon.session());
    assert_eq!(daemon.visit().ask(&Request::Stop).0, Reply::Done);
    drop((hanging, guard));
}

#[test]
fn names_whose_open_never_ends_hang_the_threads_of_their_users_only() {
    let Some((daemon, hanging)) = stage(&[fuse::OPEN]) else { return };
    let guard = no_starts();
    let sample = sample(&daemon, 100);
    let held: Vec<_> = [60_001, 60_002, 60_003, 60_004]
        .map(|uid| {
            as_user(uid, || {
                let each = (0..5).map(|number| {
                    let mut session = Delegate::new(&daemon);
                    for more in 0..3 {
                        let name = hanging.path(&format!("{uid}-{number}-{more}"));
                        let name = name.to_str().unwrap();
                        session.window.copy_in(more * 4096, name.as_bytes()).unwrap();
                        let pieces = pieces(&[(more as u64 * 4096, name.len() as u32)]);
                        let open =
                            Operation { kind: OpKind::Open, argument: READ, pieces, ..blank(5) };
                        session.submit(&open);
                        session.submissions.ring();
                    }
                    session
                });
                each.collect::<Vec<_>>()
            })
            .unwrap()
        })
        .into_iter()
        .flatten()
        .collect();
    await_that("openers hang", || hanging.waiting() >= 16);
    // As long as it takes for them to count as stuck, and more.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let mut session = Delegate::new(&daemon);
    let found = session.open(sample.to_str().unwrap(), READ);
    assert!(found.is_ok(), "root's open: {found:?}");
    let neighbour = as_user(NEIGHBOUR, || {
        // Not its file: what counts is that somebody looked.
        Delegate::new(&daemon).open(sample.to_str().unwrap(), READ)
    });
    assert_eq!(neighbour, Some(Err(i64::from(libc::EACCES))));
    assert!(daemon.status()["sessions"].as_array().unwrap().len() > held.len());
    // Those who wait are let go before the daemon is.
    drop((hanging, guard));
    drop(held);
}

/// Descriptors of all kinds that the machine has, shown with every request that shows some.
#[test]
fn odd_descriptors_prove_nothing_and_delay_nobody() {
    // Reading, statistics, attributes, ioctl and all else that may be asked of an open file.
    let never: &'static [u32] = &[fuse::GETATTR, 15, 17, 22, fuse::FLUSH, 39, 40, 46, 52];
    let Some((daemon, hanging)) = stage(never) else { return };
    let beside = Beside::start(&daemon);
    let guard = no_starts();
    let odd = odd_descriptors(&[opened(&hanging.path("x"))]);
    let refusals = as_user(ATTACKERS[0], || {
        let mut refusals = 0;
        for (what, fd) in &odd {
            let mut session = Delegate::new(&daemon);
            for request in ["listen", "lease", "delegate", "show", "publish", "attach"] {
                refusals += usize::from(shown(&mut session.client, request, *fd, what));
            }
        }
        refusals
    });
    assert!(refusals.unwrap() >= 5 * odd.len());
    beside.await_turn();
    beside.finish(&daemon);
    drop((hanging, guard));
}

/// Whether a request that shows a descriptor is refused.
fn shown(client: &mut Client, request: &str, fd: RawFd, what: &str) -> bool {
    let name = RegionName::parse("odd").unwrap();
    let (request, fds) = match request {
        "listen" => (Request::Listen, vec![fd]),
        "lease" => (Request::Lease, vec![fd]),
        "delegate" => (Request::Delegate { members: 0 }, vec![fd]),
        "show" => (Request::ShowFile { tag: 1, direct: false, buffered: false }, vec![fd]),
        "publish" => (Request::Publish { name }, vec![fd, fd]),
        _ => (Request::AttachRegion { name, owner: OWN_USER }, vec![fd, fd]),
    };
    // Rings of io_uring do not travel since Linux 6.7.
    if client.socket.send(&request.encode(1), &fds).is_err() {
        return true;
    }
    match client.receive().unwrap().0 {
        Reply::Refused { code, .. } => {
            assert_ne!(code, Code::Internal, "{request:?} with {what}");
            true
        }
        Reply::NotLeased { .. } => true,
        // The completion says what became of it.
        Reply::Done => false,
        reply => panic!("{request:?} with {what}: {reply:?}"),
    }
}

fn odd_descriptors(more: &[RawFd]) -> Vec<(&'static str, RawFd)> {
    let open = |path: &str, flags| {
        let path = std::ffi::CString::new(path).unwrap();
        // SAFETY: the path ends, and outlives the call.
        unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) }
    };
    let call = |number, one: libc::c_long, two: libc::c_long| {
        // SAFETY: none of these calls takes a pointer with these arguments.
        unsafe { libc::syscall(number, one, two) as RawFd }
    };
    let mut parameters = [0u32; 64];
    // SAFETY: io_uring_setup(2) fills in 120 bytes; there are 256.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    let socket = |domain, kind, protocol| {
        // SAFETY: takes no pointer.
        unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) }
    };
    let own = std::process::id() as libc::c_long;
    let all = [
        ("a path", open("/etc/passwd", libc::O_PATH)),
        ("a link", open("/proc/self/exe", libc::O_PATH | libc::O_NOFOLLOW)),
        ("a folder", open("/", libc::O_RDONLY)),
        ("a process", call(libc::SYS_pidfd_open, own, 0)),
        ("a ring", ring as RawFd),
        ("an epoll set", call(libc::SYS_epoll_create1, 0, 0)),
        ("an event", call(libc::SYS_eventfd2, 0, 0)),
        ("a timer", call(libc::SYS_timerfd_create, 1, 0)),
        ("a watch", call(libc::SYS_inotify_init1, 0, 0)),
        ("own memory", open("/proc/self/mem", libc::O_RDWR)),
        ("a namespace", open("/proc/self/ns/net", libc::O_RDONLY)),
        ("a device", open("/dev/fuse", libc::O_RDWR)),
        ("a terminal", open("/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY)),
        ("netlink", socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
        ("a packet socket", socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
        ("a raw socket", socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP)),
        ("a TCP socket that is new", socket(libc::AF_INET, libc::SOCK_STREAM, 0)),
        ("a control socket", socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)),
        ("a dead socket", dead_socket()),
    ];
    let more = more.iter().map(|fd| ("a file of a server that does not answer", *fd));
    all.into_iter().chain(more).filter(|(_, fd)| *fd >= 0).collect()
}

/// It listened, and does so no more.
fn dead_socket() -> RawFd {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
    socket.into_raw_fd()
}

/// A file's own lease is no hanging one's: what is local is closed at once.
#[test]
fn a_local_file_is_leased_while_others_hang() {
    let Some((daemon, hanging)) = stage(&[fuse::FLUSH]) else { return };
    let guard = no_starts();
    let (mut client, _) = daemon.session();
    for number in 0..FILES {
        let fd = opened(&hanging.path(&number.to_string()));
        client.ask_with(&Request::Lease, &[fd]);
    }
    await_that("root's closers hang", || hanging.waiting() >= 8);
    drop(guard);
    let path = sample(&daemon, 100);
    let file = std::fs::File::open(path).unwrap();
    assert!(lease(&mut client, &file).is_ok());
    assert_eq!(daemon.visit().ask(&Request::Stop).0, Reply::Done);
    drop(hanging);
}
