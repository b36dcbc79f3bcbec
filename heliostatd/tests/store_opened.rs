//! How a store comes and goes, and what is told where there is none: the node runs on in every case.

mod support;

use std::os::fd::AsRawFd;

use heliostat_abi::store::{AreaRights, StoreReply, StoreRequest, StoreState, WayWanted, Why};
use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
use support::stores::{attach, creation, no_store, sizes, StoreFile, Told, GRAIN};
use support::{await_that, place, write_file, Daemon};

/// What a control plane says whose configuration names this file.
fn told_of(path: &std::path::Path) -> String {
    let config = format!("[store]\npath = \"{}\"\n", path.display());
    let daemon = Daemon::with(&config, &[]);
    let (mut client, _) = daemon.session();
    assert_eq!(client.store_info().state, StoreState::None);
    let text = no_store(&client.create("a", GRAIN).unwrap_err()).to_owned();
    assert_eq!(daemon.status()["store"]["where"], text);
    let text = text.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned();
    text
}

#[test]
fn without_a_store_every_request_says_what_to_do() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let none = client.store_no(&creation("a", GRAIN));
    assert_eq!(no_store(&none), "");
    assert!(none.to_string().contains("heliostat store init"), "{none}");
    let open = client.open_area("a", AreaRights::READ, WayWanted::Any).unwrap_err();
    assert_eq!(open.why, Why::NoStore);
    assert_eq!(client.store_no(&StoreRequest::Detach).why, Why::NoStore);
    assert_eq!(client.store_info().state, StoreState::None);
    assert_eq!(daemon.status()["store"]["state"], "none");
}

#[test]
fn what_is_no_store_is_named_and_left_as_it_is() {
    assert_eq!(
        told_of(&place().join("is-not-there")),
        "stat: No such file or directory (os error 2)"
    );
    let blank = StoreFile::blank(1 << 20);
    assert_eq!(told_of(blank.path()), "the device is empty: no store was made in it");
    write_file(blank.path(), &[0x55; 1 << 20]);
    assert_eq!(told_of(blank.path()), "the device holds something that is no store");
    assert_eq!(std::fs::read(blank.path()).unwrap(), vec![0x55; 1 << 20]);
    let folder = place();
    assert_eq!(told_of(&folder), "neither a file nor a disk nor an NVMe namespace");
    let null = std::path::Path::new("/dev/null");
    assert_eq!(told_of(null), "neither a file nor a disk nor an NVMe namespace");
}

#[test]
fn a_store_of_a_newer_format_and_one_that_was_cut_are_named() {
    let newer = StoreFile::new(16 * GRAIN);
    let mut bytes = std::fs::read(newer.path()).unwrap();
    for copy in [0, 4096] {
        bytes[copy + 8] = 3;
        let hash = blake3::hash(&bytes[copy..copy + 4064]);
        bytes[copy + 4064..copy + 4096].copy_from_slice(hash.as_bytes());
    }
    write_file(newer.path(), &bytes);
    assert_eq!(told_of(newer.path()), "the store has format 3; this program knows 2 at most");
    let cut = StoreFile::new(16 * GRAIN);
    let bytes = std::fs::read(cut.path()).unwrap();
    write_file(cut.path(), &bytes[..bytes.len() / 2]);
    assert!(told_of(cut.path()).contains("its device only"));
}

#[test]
fn a_store_that_another_control_plane_has_is_in_use_until_that_ends() {
    let file = StoreFile::new(64 * GRAIN);
    let mut first = Daemon::with(&file.config(""), &[]);
    first.session().0.create("a", GRAIN).unwrap();
    let second = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = second.session();
    let none = client.create("b", GRAIN).unwrap_err();
    assert!(no_store(&none).ends_with("the device is in use"), "{none}");
    first.kill();
    let told = attach(&mut client, file.path());
    assert!(matches!(told, Told::Own(StoreReply::Store(_), _)), "{told:?}");
    assert_eq!(sizes(&client.areas()), [("a".to_owned(), GRAIN)]);
}

#[test]
fn a_store_is_attached_to_a_control_plane_that_runs_and_detached_when_nobody_uses_it() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::start();
    let mut visitor = daemon.visit();
    let Told::Own(StoreReply::Store(info), _) = attach(&mut visitor, file.path()) else {
        panic!("not attached")
    };
    assert_eq!((info.state, info.areas), (StoreState::Open, 0));
    assert_eq!(info.text, file.path().display().to_string());
    let Told::No(twice) = attach(&mut visitor, file.path()) else { panic!("attached twice") };
    assert_eq!((twice.why, twice.text), (Why::HasStore, info.text));
    let (mut client, _) = daemon.session();
    let area = client.create("a", GRAIN).unwrap();
    let used = visitor.store_no(&StoreRequest::Detach);
    assert_eq!((used.why, used.found), (Why::InUse, 1));
    client.store_done(&StoreRequest::Close { handle: area.handle });
    visitor.store_done(&StoreRequest::Detach);
    assert_eq!(client.create("b", GRAIN).unwrap_err().why, Why::NoStore);
    assert!(matches!(attach(&mut visitor, file.path()), Told::Own(..)));
    assert_eq!(sizes(&client.areas()), [("a".to_owned(), GRAIN)]);
}

#[test]
fn what_is_shown_and_is_no_store_is_refused_with_the_reason() {
    let daemon = Daemon::start();
    let mut visitor = daemon.visit();
    let blank = StoreFile::blank(1 << 20);
    let Told::No(no) = attach(&mut visitor, blank.path()) else { panic!("attached") };
    assert_eq!(no.why, Why::NotOpened);
    assert!(no.text.ends_with("the device is empty: no store was made in it"), "{no}");
    let pipe = std::io::pipe().unwrap();
    let told = visitor.store_with(&StoreRequest::Attach, &[pipe.0.as_raw_fd()]);
    let Told::No(no) = told else { panic!("{told:?}") };
    assert!(no.text.ends_with("neither a file nor a disk nor an NVMe namespace"), "{no}");
}

#[test]
fn a_device_that_fails_is_told_and_the_store_can_be_attached_anew() {
    let file = StoreFile::new(64 * GRAIN);
    let memory = memfd_create("failing", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&memory, &std::fs::read(file.path()).unwrap()).unwrap();
    let daemon = Daemon::start();
    let mut visitor = daemon.visit();
    let told = visitor.store_with(&StoreRequest::Attach, &[memory.as_raw_fd()]);
    assert!(matches!(told, Told::Own(StoreReply::Store(_), _)), "{told:?}");
    let (mut client, _) = daemon.session();
    let area = client.create("a", GRAIN).unwrap();
    // From now on every write fails.
    fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
    assert_eq!(client.create("b", GRAIN).unwrap_err().why, Why::DeviceFailed);
    let failed = client.create("c", GRAIN).unwrap_err();
    assert_eq!(failed.why, Why::DeviceFailed);
    assert_eq!(client.store_info().state, StoreState::Failed);
    assert_eq!(daemon.status()["store"]["state"], "failed");
    client.store_done(&StoreRequest::Close { handle: area.handle });
    visitor.store_done(&StoreRequest::Detach);
    assert!(matches!(attach(&mut visitor, file.path()), Told::Own(..)));
    await_that("the store is open", || client.store_info().state == StoreState::Open);
    client.create("a", GRAIN).unwrap();
}

#[test]
fn a_store_that_was_attached_by_hand_and_a_rate_outlive_the_control_plane_until_they_are_taken_back(
) {
    let file = StoreFile::new(64 * GRAIN);
    let mut daemon = Daemon::start();
    assert!(matches!(attach(&mut daemon.visit(), file.path()), Told::Own(..)));
    let rates = |daemon: &Daemon| {
        let (mut client, _) = daemon.session();
        client
            .areas()
            .into_iter()
            .map(|area| (area.name.to_string(), area.bytes_per_second))
            .collect()
    };
    let (mut client, _) = daemon.session();
    for name in ["a", "b"] {
        let handle = client.create(name, GRAIN).unwrap().handle;
        let bytes_per_second = 1 << 20;
        client.store_done(&StoreRequest::SetRate { handle, bytes_per_second });
    }
    client.create("c", GRAIN).unwrap();
    daemon.kill();
    daemon.restart();
    let of = |name: &str, rate: u64| (format!("/store/{name}"), rate);
    let found: Vec<_> = rates(&daemon);
    assert_eq!(found, [of("a", 1 << 20), of("b", 1 << 20), of("c", 0)]);
    let (mut client, _) = daemon.session();
    let handle = client.managed("a");
    client.store_done(&StoreRequest::SetRate { handle, bytes_per_second: 0 });
    let handle = client.managed("b");
    client.store_done(&StoreRequest::Delete { handle });
    client.create("b", GRAIN).unwrap();
    daemon.kill();
    daemon.restart();
    let found: Vec<_> = rates(&daemon);
    assert_eq!(found, [of("a", 0), of("c", 0), of("b", 0)], "another area of the name has none");
    // Another store in its place is not taken for it.
    daemon.kill();
    let other = StoreFile::new(64 * GRAIN);
    let mut bytes = std::fs::read(other.path()).unwrap();
    for copy in [0, 4096] {
        bytes[copy + 16] ^= 1;
        let hash = blake3::hash(&bytes[copy..copy + 4064]);
        bytes[copy + 4064..copy + 4096].copy_from_slice(hash.as_bytes());
    }
    let kept = std::fs::read(file.path()).unwrap();
    write_file(file.path(), &bytes);
    daemon.restart();
    let info = daemon.visit().store_info();
    assert!(info.state == StoreState::None && info.text.contains("holds the store"), "{info:?}");
    daemon.kill();
    write_file(file.path(), &kept);
    daemon.restart();
    let mut visitor = daemon.visit();
    assert_eq!(visitor.store_info().state, StoreState::Open);
    visitor.store_done(&StoreRequest::Detach);
    daemon.kill();
    daemon.restart();
    assert_eq!(daemon.visit().store_info().state, StoreState::None);
}
