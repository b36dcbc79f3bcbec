//! The two ways to an area: who gets the direct one, what it holds back, and what a restart leaves.

mod support;

use std::os::fd::AsRawFd;

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Request;
use heliostat_abi::store::reply::NO_MORE;
use heliostat_abi::store::{
    AreaRights, Piece, Spill, StoreReply, StoreRequest, Way, WayWanted, Why,
};
use heliostat_base::fd::OwnedFd;
use rustix::io::Errno;
use serde_json::{json, Value};
use support::stores::{creation, opening, StoreFile, Told, GRAIN};
use support::{await_that, Client, Daemon};

fn pieces(client: &mut Client, handle: ObjectId) -> (u64, Vec<Piece>) {
    match client.store(&StoreRequest::Pieces { handle, from: 0 }) {
        Told::Own(StoreReply::Pieces { bytes, pieces, next: NO_MORE }, _) => (bytes, pieces),
        other => panic!("{other:?}"),
    }
}

fn direct(client: &mut Client, name: &str, rights: AreaRights) -> (ObjectId, OwnedFd) {
    let (opened, device) = client.open_area(name, rights, WayWanted::Direct).unwrap();
    assert_eq!(opened.way, Way::Direct);
    (opened.handle, device.unwrap())
}

fn resize(handle: ObjectId, bytes: u64) -> StoreRequest {
    StoreRequest::Resize { handle, bytes }
}

#[test]
fn who_is_direct_gets_the_device_and_where_the_area_lies() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = daemon.session();
    client.create("before", GRAIN).unwrap();
    client.create("a", 4 * GRAIN).unwrap();
    let (handle, device) = direct(&mut client, "a", AreaRights::ALL);
    let (bytes, found) = pieces(&mut client, handle);
    assert_eq!((bytes, found.len(), found[0].bytes), (4 * GRAIN, 1, 4 * GRAIN));
    let path = format!("/proc/self/fd/{}", device.as_raw_fd());
    assert_eq!(std::fs::read_link(path).unwrap(), file.path());
    let pid = std::process::id();
    let told = daemon.visit().text(&Request::Explain { pid });
    let told: Value = serde_json::from_str(&told).unwrap();
    let driven = &told["store"][0]["driven"];
    assert_eq!(
        (&driven["by"], driven),
        (&json!(file.driven_by()), &daemon.status()["store"]["driven"])
    );
    assert!(!driven["why"].as_str().unwrap().is_empty());
    // It grows while it is held.
    let manager = client.managed("a");
    assert!(matches!(client.store(&resize(manager, 6 * GRAIN)), Told::Own(..)));
    let (bytes, found) = pieces(&mut client, handle);
    assert_eq!((bytes, found.iter().map(|it| it.bytes).sum::<u64>()), (6 * GRAIN, 6 * GRAIN));
    let emulated = client.store_no(&StoreRequest::Pieces { handle: manager, from: 0 });
    assert_eq!((emulated.why, emulated.found), (Why::NotDirect, Spill::NotWanted as u64));
    match client.store(&StoreRequest::Pieces { handle, from: u32::MAX }) {
        Told::Own(StoreReply::Pieces { pieces, next: NO_MORE, .. }, _) => {
            assert!(pieces.is_empty())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handle_that_may_only_read_has_a_device_that_cannot_be_written() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = daemon.session();
    client.create("a", GRAIN).unwrap();
    let (_, device) = direct(&mut client, "a", AreaRights::READ);
    assert_eq!(rustix::io::pwrite(&device, &[0; 4096], 0), Err(Errno::BADF));
}

#[test]
fn nobody_takes_bytes_from_who_is_direct_until_his_last_descriptor_is_closed() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let ((mut client, _), (mut other, _)) = (daemon.session(), daemon.session());
    client.create("a", 4 * GRAIN).unwrap();
    let (handle, device) = direct(&mut other, "a", AreaRights::READ.and(AreaRights::WRITE));
    let manager = client.managed("a");
    for taking in [resize(manager, GRAIN), StoreRequest::Delete { handle: manager }] {
        let held = client.store_no(&taking);
        assert_eq!((held.why, held.pid, held.found), (Why::Held, std::process::id(), 1));
    }
    // The handle is given back, and the descriptor is not.
    other.store_done(&StoreRequest::Close { handle });
    let held = client.store_no(&StoreRequest::Delete { handle: manager });
    assert_eq!((held.why, held.pid), (Why::Held, 0));
    let rate = StoreRequest::SetRate { handle: manager, bytes_per_second: 1 << 20 };
    assert_eq!(client.store_no(&rate).why, Why::Held);
    drop(device);
    client.store_done(&StoreRequest::Delete { handle: manager });
}

#[test]
fn after_a_restart_what_an_old_program_holds_directly_is_not_taken_from_it() {
    let file = StoreFile::new(64 * GRAIN);
    let mut daemon = Daemon::with(&file.config(""), &[]);
    let (mut old, _) = daemon.session();
    old.create("a", 4 * GRAIN).unwrap();
    old.create("b", GRAIN).unwrap();
    let (_, device) = direct(&mut old, "a", AreaRights::ALL);
    daemon.restart();
    let (mut client, _) = daemon.session();
    let (a, b) = (client.managed("a"), client.managed("b"));
    let held = client.store_no(&StoreRequest::Delete { handle: a });
    assert_eq!((held.why, held.pid), (Why::Held, 0));
    assert_eq!(client.store_no(&resize(a, 2 * GRAIN)).why, Why::Held);
    client.store_done(&StoreRequest::Delete { handle: b });
    drop(device);
    client.store_done(&StoreRequest::Delete { handle: a });
}

#[test]
fn the_direct_way_is_given_to_who_comes_first_and_is_free_again_when_he_ends() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config("direct_max = 1"), &[]);
    let ((mut first, _), (mut second, _)) = (daemon.session(), daemon.session());
    first.create("a", GRAIN).unwrap();
    let _held = direct(&mut first, "a", AreaRights::READ);
    let (spilled, none) = second.open_area("a", AreaRights::READ, WayWanted::Any).unwrap();
    assert_eq!((spilled.way, none.is_none()), (Way::Emulated(Spill::AllTaken), true));
    let only = second.open_area("a", AreaRights::READ, WayWanted::Direct).unwrap_err();
    assert_eq!((only.why, only.found), (Why::NotDirect, Spill::AllTaken as u64));
    drop(first);
    await_that("the way is free", || {
        second.open_area("a", AreaRights::READ, WayWanted::Direct).is_ok()
    });
}

#[test]
fn an_area_with_a_rate_is_never_direct() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config("bytes_per_second = 1_000_000"), &[]);
    let (mut client, _) = daemon.session();
    let area = client.create("a", GRAIN).unwrap();
    let (opened, _) = client.open_area("a", AreaRights::READ, WayWanted::Any).unwrap();
    assert_eq!(opened.way, Way::Emulated(Spill::HasRate));
    assert_eq!(client.areas()[0].bytes_per_second, 1_000_000);
    client.store_done(&StoreRequest::SetRate { handle: area.handle, bytes_per_second: 0 });
    direct(&mut client, "a", AreaRights::READ);
}

#[test]
fn whom_the_configuration_does_not_trust_is_served_by_the_loop() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config("direct = \"none\""), &[]);
    let (mut client, _) = daemon.session();
    client.create("a", GRAIN).unwrap();
    let (opened, none) = client.open_area("a", AreaRights::ALL, WayWanted::Any).unwrap();
    assert_eq!((opened.way, none.is_none()), (Way::Emulated(Spill::NotTrusted), true));
    let asked = opening(u32::MAX, "a", AreaRights::ALL, WayWanted::Direct);
    assert_eq!(client.store_no(&asked).found, Spill::NotTrusted as u64);
    assert!(matches!(client.store(&creation("b", GRAIN)), Told::Own(..)));
}
