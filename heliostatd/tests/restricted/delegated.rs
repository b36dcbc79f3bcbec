//! Delegated operations of connections that were restricted: on what they show, and on no names.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::*;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_base::mapping::SharedMapping;

/// A connection that may use these services and nothing else.
fn restricted(daemon: &Daemon, services: Services) -> Client {
    let mut client = daemon.visit();
    assert_eq!(client.ask(&Request::Restrict { services, pid: 4_000_000 }).0, Reply::Done);
    client
}

fn delegates(daemon: &Daemon) -> Delegate {
    Delegate::of(restricted(daemon, Services::DELEGATION))
}

fn opened(path: &std::path::Path, flags: i32) -> File {
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}

#[test]
fn only_whose_restriction_names_the_service_delegates_and_it_is_told_to_show() {
    let daemon = Daemon::start();
    let (fd, _window) = SharedMapping::create(c"window", 8192).unwrap();
    let mut without = restricted(&daemon, Services::STREAMS.and(Services::FILES));
    without.hello();
    assert_eq!(without.refusal(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]), Code::Denied);
    let file = File::open("/dev/null").unwrap();
    let show = Request::ShowFile { tag: 1, direct: false, buffered: false };
    assert_eq!(without.refusal(&show, &[file.as_raw_fd()]), Code::Denied);
    let mut with = restricted(&daemon, Services::DELEGATION);
    with.hello();
    let reply = with.ask_with(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]).0;
    assert!(matches!(reply, Reply::Delegated { lends: false, shows_only: true, .. }), "{reply:?}");
    assert_eq!(with.refusal(&Request::Lease, &[file.as_raw_fd()]), Code::Denied);
    let (mut free, _) = daemon.session();
    let reply = free.ask_with(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]).0;
    assert!(matches!(reply, Reply::Delegated { shows_only: false, .. }), "{reply:?}");
}

#[test]
fn no_operation_on_a_name_is_done() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let name = path.to_str().unwrap();
    let mut session = delegates(&daemon);
    let denied = i64::from(libc::EACCES);
    for access in [READ, WRITE, READ | WRITE | TRUNCATE, READ | DIRECT, READ | DIRECTORY] {
        assert_eq!(session.open(name, access), Err(denied), "{access}");
    }
    let beside = format!("{name}.new");
    assert_eq!(session.open(&beside, WRITE | CREATE | mode(0o600)), Err(denied));
    let both = [name.as_bytes(), beside.as_bytes()];
    let changes = [
        (OpKind::Mkdir, &both[1..], 0o700),
        (OpKind::Rmdir, &both[..1], 0),
        (OpKind::Unlink, &both[..1], 0),
        (OpKind::Rename, &both[..], 0),
        (OpKind::Symlink, &both[..], 0),
    ];
    for (kind, names, argument) in changes {
        assert_eq!(session.names(kind, names, argument), -denied, "{kind:?}");
    }
    let link = path.with_extension("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let pieces = session.put_names(&[link.to_str().unwrap().as_bytes(), &[0; 64]]);
    let readlink = Operation { kind: OpKind::Readlink, pieces, ..blank(11) };
    assert_eq!(session.run(&readlink).result, -denied);
    assert_eq!(std::fs::read(&path).unwrap(), vec![5; 4096]);
    assert!(!std::path::Path::new(&beside).exists());
    let told = daemon.status()["denials"].to_string();
    assert!(told.contains("the connection is restricted"), "{told}");
}

#[test]
fn what_is_shown_gives_what_its_descriptor_gives() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let mut session = delegates(&daemon);
    let invalid = Err(i64::from(libc::EINVAL));
    assert_eq!(session.show(&opened(&path, libc::O_PATH), false), invalid);
    assert_eq!(session.show(&opened(daemon.folder(), libc::O_PATH), false), invalid);
    let reader = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(reader, 0, 4096).2, vec![5; 4096]);
    let (bad, denied) = (-i64::from(libc::EBADF), -i64::from(libc::EACCES));
    assert_eq!(session.write(OpKind::Write, reader, 0, b"x"), bad);
    assert_eq!(session.write(OpKind::Append, reader, 0, b"x"), bad);
    assert_eq!(session.on(OpKind::Truncate, reader, 1), bad);
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    let writer = session.show(&writer, false).unwrap();
    assert_eq!(session.read(writer, 0, 1).0, bad);
    assert_eq!(session.write(OpKind::Write, writer, 0, b"here"), 4);
    let end = OpenOptions::new().append(true).open(&path).unwrap();
    let end = session.show(&end, false).unwrap();
    assert_eq!(session.write(OpKind::Write, end, 0, b"there"), 5);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((&bytes[..5], &bytes[4096..]), (&b"here\x05"[..], &b"there"[..]));
    // Whoever could lock alone could keep others waiting, who may be outside.
    for file in [reader, writer] {
        assert_eq!(session.on(OpKind::Lock, file, ALONE | NOW), denied);
        assert_eq!(session.on(OpKind::Lock, file, SHARED | NOW), 0);
    }
}

#[test]
fn a_directory_that_is_shown_is_listed_and_leads_nowhere() {
    let daemon = Daemon::start();
    let folder = daemon.folder().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("inside"), b"").unwrap();
    for mut session in [delegates(&daemon), Delegate::new(&daemon)] {
        let shown = File::open(&folder).unwrap();
        let directory = session.show(&shown, false).unwrap();
        let entries = session.readdir(directory, 0, 4096).unwrap();
        let names: Vec<_> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["inside"]);
        assert_eq!(session.read(directory, 0, 16).0, -i64::from(libc::EISDIR));
        assert_eq!(session.on(OpKind::Fsync, directory, 0), 0);
        assert_eq!(session.show(&shown, true), Err(i64::from(libc::EINVAL)));
    }
}

#[test]
fn a_file_that_is_shown_for_the_caches_is_read_by_them() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 1 << 20);
    let mut session = delegates(&daemon);
    let file = File::open(&path).unwrap();
    let show = |buffered| Request::ShowFile { tag: 7, direct: false, buffered };
    let mut read_large = |buffered| {
        let reply = session.client.ask_with(&show(buffered), &[file.as_raw_fd()]).0;
        assert_eq!(reply, Reply::Done);
        let shown = id_of(session.next()).unwrap();
        let (count, way, _) = session.read(shown, 0, 1 << 20);
        assert_eq!(count, 1 << 20);
        way
    };
    let way = read_large(true);
    assert!(matches!(way, Way::Cached | Way::Filled | Way::Kernel), "{way:?}");
}
