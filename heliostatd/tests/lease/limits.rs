//! Leases under limits, rules, pauses and bad manners: others go on, and nothing is left behind.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::support::beside::may_lease_others_files;
use crate::support::files::*;
use crate::support::*;
use heliostat_abi::code::{Code, Unmapped};
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{Reply, Request};
use rustix::fs::{FileType, Mode, OFlags, CWD};
use rustix::process::{prlimit, Pid, Resource, Rlimit, Signal};

/// A user that is neither root nor whoever runs the tests.
const NOBODY: u32 = 65534;

fn limit(daemon: &Daemon, resource: Resource, value: u64) {
    let pid = Pid::from_raw(daemon.pid() as i32);
    prlimit(pid, resource, Rlimit { current: Some(value), maximum: Some(value) }).unwrap();
}

fn samples(daemon: &Daemon, count: usize) -> Vec<Sample> {
    (0..count).map(|number| Sample::new(daemon, &format!("file{number}"))).collect()
}

#[test]
fn leases_of_one_session_are_limited() {
    let daemon = Daemon::with("[limits]\nleases_per_session = 2\n", &[]);
    let files = samples(&daemon, 3);
    let (mut one, _) = daemon.session();
    let (mut other, _) = daemon.session();
    let (first, _, _) = lease(&mut one, &files[0].reader()).unwrap();
    lease(&mut one, &files[1].reader()).unwrap();
    assert_eq!(lease(&mut one, &files[2].reader()).err(), Some(Unmapped::Full));
    lease(&mut other, &files[2].reader()).unwrap();
    // Sharing a lease counts as one; the same again does not, and is ended by itself.
    assert_eq!(lease(&mut one, &files[2].reader()).err(), Some(Unmapped::Full));
    lease(&mut one, &files[0].reader()).unwrap();
    assert_eq!(one.ask(&Request::EndLease { lease: first }).0, Reply::Done);
    assert_eq!(lease(&mut one, &files[2].reader()).err(), Some(Unmapped::Full));
    assert_eq!(one.ask(&Request::EndLease { lease: first }).0, Reply::Done);
    lease(&mut one, &files[2].reader()).unwrap();
}

#[test]
fn leases_take_no_more_than_their_share_of_the_descriptors() {
    let daemon = Daemon::start();
    limit(&daemon, Resource::Nofile, 800);
    daemon.signal(Signal::HUP);
    await_that("it counts again", || daemon.status()["limits"]["leases"] == 200);
    let files = samples(&daemon, 201);
    let (mut client, _) = daemon.session();
    for some in files[..200].chunks(20) {
        some.iter().for_each(|file| drop(lease(&mut client, &file.reader()).unwrap()));
        // What was shown is closed beside the event loop, which may take longer.
        await_that("there is room", || daemon.descriptors() < 600);
    }
    assert_eq!(lease(&mut client, &files[200].reader()).err(), Some(Unmapped::Full));
    let (_another, _) = daemon.session();
}

#[test]
fn a_file_that_is_broken_again_and_again_is_left_alone() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, _) = daemon.session();
    let mut refused = 0;
    // The pause doubles each time, so it is longer than this takes at last.
    await_that("it is left alone", || {
        lease_at_last(&mut client, &sample.reader());
        drop(sample.writer());
        let answer = lease(&mut client, &sample.reader());
        refused += usize::from(answer.err() == Some(Unmapped::Broken));
        refused >= 2
    });
    let metrics = daemon.visit().text(&Request::Metrics);
    assert!(metrics.contains("heliostat_leases_refused_total{reason=\"Broken\"}"), "{metrics}");
    assert!(!metrics.contains("heliostat_leases_broken_total 0\n"), "{metrics}");
}

#[test]
fn writers_of_many_files_at_once_all_go_on() {
    let daemon = Daemon::start();
    let files = samples(&daemon, 200);
    let (mut client, welcome) = daemon.session();
    let leases: Vec<_> =
        files.iter().map(|file| lease(&mut client, &file.reader()).unwrap().0).collect();
    std::thread::scope(|scope| {
        files.iter().for_each(|file| drop(scope.spawn(|| drop(file.writer()))));
    });
    assert!(leases.iter().all(|lease| state(&welcome, *lease) == State::Revoked));
}

#[test]
fn breaks_are_heard_without_a_queue_for_signals() {
    let daemon = Daemon::start();
    let files = samples(&daemon, 3);
    let (mut client, welcome) = daemon.session();
    let leases: Vec<_> =
        files.iter().map(|file| lease(&mut client, &file.reader()).unwrap().0).collect();
    limit(&daemon, Resource::Sigpending, 0);
    drop(files[1].writer());
    let states: Vec<_> = leases.iter().map(|lease| state(&welcome, *lease)).collect();
    assert_eq!(states, [State::Active, State::Revoked, State::Active]);
}

#[test]
fn forged_signals_break_nothing() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, welcome) = daemon.session();
    let (lease, _, _) = lease(&mut client, &sample.reader()).unwrap();
    for signal in ["-39", "-IO"] {
        let pid = daemon.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
    daemon.status();
    assert_eq!(state(&welcome, lease), State::Active);
}

#[test]
fn whatever_is_shown_is_neither_opened_nor_waited_for() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let before = daemon.descriptors();
    let path = daemon.folder().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let by = |path, flags| rustix::fs::open(path, flags, Mode::empty()).unwrap();
    let folder = daemon.folder().to_path_buf();
    let sample = Sample::new(&daemon, "file");
    let unix: OwnedFd = UnixStream::pair().unwrap().0.into();
    let memory = heliostat_base::mapping::SharedMapping::create(c"memory", 4096).unwrap().0;
    let shown = [
        (by(path.clone(), OFlags::RDONLY | OFlags::NONBLOCK), Unmapped::NotRegular),
        (by(path, OFlags::PATH), Unmapped::NotRegular),
        (by(sample.0.clone(), OFlags::PATH), Unmapped::NotRegular),
        (by(sample.0.clone(), OFlags::RDONLY | OFlags::DIRECT), Unmapped::Writable),
        (by(folder, OFlags::RDONLY), Unmapped::NotRegular),
        (unix, Unmapped::NotRegular),
        (memory.into(), Unmapped::Writable),
        (by("/proc/self/mem".into(), OFlags::RDONLY), Unmapped::FileSystem),
        (by("/dev/zero".into(), OFlags::RDONLY), Unmapped::FileSystem),
    ];
    for _ in 0..50 {
        for (fd, reason) in &shown {
            assert_eq!(lease(&mut client, fd).err(), Some(*reason));
        }
    }
    let many = [shown[0].0.as_raw_fd(); 16];
    assert_eq!(client.refusal(&Request::Lease, &many), Code::BadRecord);
    await_that("all are closed", || daemon.descriptors() == before);
}

#[test]
fn a_storm_of_leases_leaves_nothing_behind() {
    let daemon = Daemon::start();
    let files = samples(&daemon, 20);
    let before = daemon.descriptors();
    for round in 0..20 {
        let (mut client, _) = daemon.session();
        for file in &files {
            let answer = lease(&mut client, &file.reader());
            assert!(!matches!(answer.err(), Some(reason) if reason != Unmapped::Broken));
        }
        // Some are broken, none is ended.
        let _guard = no_starts();
        drop(files[round].writer());
    }
    await_that("all is closed", || daemon.descriptors() == before);
    assert_eq!(daemon.status()["leases"].as_array().unwrap().len(), 0);
}

#[test]
fn rules_decide_which_files_are_leased() {
    let config = "[[rule]]\naction = \"deny\"\nrights = [\"read\"]\nnames = [\"/file/*\"]\n";
    let daemon = Daemon::with(config, &[]);
    let sample = Sample::new(&daemon, "file");
    let (mut client, _) = daemon.session();
    assert_eq!(lease(&mut client, &sample.reader()).err(), Some(Unmapped::Denied));
}

#[test]
fn a_users_lease_is_on_the_users_own_files() {
    let daemon = Daemon::start();
    let own = Sample::new(&daemon, "own");
    if !rustix::process::geteuid().is_root() {
        let (mut client, _) = daemon.session();
        let foreign = File::open("/etc/passwd").unwrap();
        return assert_eq!(lease(&mut client, &foreign).err(), Some(Unmapped::Owner));
    }
    let roots = Sample::new(&daemon, "roots");
    chown(&own.0, Some(NOBODY), None).unwrap();
    let asked = std::thread::scope(|scope| {
        let other_user = scope.spawn(|| {
            let [real, effective, saved] = [NOBODY; 3];
            // SAFETY: no pointer; made directly, the call is about this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, real, effective, saved) }, 0);
            let (mut client, _) = daemon.session();
            [&own, &roots].map(|file| lease(&mut client, &file.reader()).err())
        });
        other_user.join().unwrap()
    });
    // A control plane of root's that may lease its own files only (no CAP_LEASE) says so.
    let own = if may_lease_others_files() { None } else { Some(Unmapped::Owner) };
    assert_eq!(asked, [own, Some(Unmapped::Owner)]);
}

#[test]
fn revoking_a_process_ends_its_leases() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, welcome) = daemon.session();
    let (lease, _, _) = lease(&mut client, &sample.reader()).unwrap();
    let pid = std::process::id();
    assert_eq!(daemon.visit().ask(&Request::Revoke { pid }).0, Reply::Done);
    assert_eq!(state(&welcome, lease), State::Revoked);
    let file = sample.reader();
    assert_eq!(client.refusal(&Request::Lease, &[file.as_raw_fd()]), Code::Revoked);
}

#[test]
fn people_see_who_reads_what() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, _) = daemon.session();
    lease(&mut client, &sample.reader()).unwrap();
    let both = OpenOptions::new().read(true).write(true).open(Sample::new(&daemon, "b").0).unwrap();
    assert_eq!(lease(&mut client, &both).err(), Some(Unmapped::Writable));
    let (status, path) = (daemon.status(), sample.0.to_str().unwrap());
    let shown = &status["leases"][0];
    assert_eq!((&shown["path"], &shown["pids"][0]), (&path.into(), &std::process::id().into()));
    assert_eq!(status["sessions"][0]["leases"], 1);
    let explained = daemon.visit().text(&Request::Explain { pid: std::process::id() });
    assert!(explained.contains(path), "{explained}");
    let metrics = daemon.visit().text(&Request::Metrics);
    assert!(metrics.contains("heliostat_leases 1\n"), "{metrics}");
    let refused = "heliostat_leases_refused_total{reason=\"Writable\"} 1\n";
    assert!(metrics.contains(refused), "{metrics}");
}
