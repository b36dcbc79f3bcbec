//! Areas of a store from their beginning to their end, and over restarts of the control plane.

mod support;

use heliostat_abi::store::{AreaRights, StoreRequest, StoreState, Way, WayWanted, Why};
use serde_json::json;
use support::stores::{creation, sizes, StoreFile, Told, AREAS, GRAIN};
use support::{await_that, Daemon};

#[test]
fn areas_are_made_resized_and_deleted_and_are_there_after_the_control_plane_was_killed() {
    let file = StoreFile::new(64 * GRAIN);
    let mut daemon = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = daemon.session();
    let log = client.create("redis/log", 4 * GRAIN).unwrap();
    assert_eq!((log.bytes, log.rights, log.generation), (4 * GRAIN, AreaRights::ALL, 1));
    assert_eq!(u64::from(log.grain_bytes), GRAIN);
    client.create("b", GRAIN).unwrap();
    let gone = client.create("gone", GRAIN).unwrap();
    let resize = StoreRequest::Resize { handle: log.handle, bytes: 6 * GRAIN };
    assert!(matches!(client.store(&resize), Told::Own(..)));
    client.store_done(&StoreRequest::Delete { handle: gone.handle });
    let closed = client.store_no(&StoreRequest::Close { handle: gone.handle });
    assert_eq!(closed.why, Why::NoHandle);
    let found = sizes(&client.areas());
    assert_eq!(found, [("b".to_owned(), GRAIN), ("redis/log".to_owned(), 6 * GRAIN)]);

    daemon.restart();
    let (mut client, _) = daemon.session();
    assert_eq!(sizes(&client.areas()), found);
    let (again, _) = client.open_area("redis/log", AreaRights::ALL, WayWanted::Emulated).unwrap();
    assert_eq!((again.generation, again.bytes), (log.generation, 6 * GRAIN));
    let shrink = StoreRequest::Resize { handle: again.handle, bytes: GRAIN };
    assert!(matches!(client.store(&shrink), Told::Own(..)));
    client.store_done(&StoreRequest::Delete { handle: again.handle });

    daemon.restart();
    let (mut client, _) = daemon.session();
    assert_eq!(sizes(&client.areas()), [("b".to_owned(), GRAIN)]);
}

#[test]
fn what_was_deleted_is_free_again_when_it_was_zeroed() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = daemon.session();
    let free = client.store_info().free_bytes;
    let whole = client.create("whole", free).unwrap();
    let full = client.create("more", GRAIN).unwrap_err();
    assert_eq!((full.why, full.wanted, full.found), (Why::NoRoom, GRAIN, 0));
    client.store_done(&StoreRequest::Delete { handle: whole.handle });
    await_that("the bytes are free", || client.store_info().free_bytes == free);
    client.create("whole", free).unwrap();
}

#[test]
fn names_are_taken_once_and_sizes_are_multiples_of_the_grain() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = daemon.session();
    client.create("a", GRAIN).unwrap();
    assert_eq!(client.create("a", GRAIN).unwrap_err().why, Why::NameTaken);
    let odd = client.create("b", GRAIN + 1).unwrap_err();
    assert_eq!((odd.why, odd.wanted, odd.found), (Why::Size, GRAIN + 1, GRAIN));
    assert_eq!(client.create("b", 0).unwrap_err().why, Why::Size);
    let handle = client.managed("a");
    let odd = client.store_no(&StoreRequest::Resize { handle, bytes: 2 * GRAIN - 512 });
    assert_eq!((odd.why, odd.found), (Why::Size, GRAIN));
    // A change that was refused leaves the area free for the next.
    client.store_done(&StoreRequest::Appoint { handle, others: AreaRights::READ });
    assert_eq!(client.areas()[0].others, AreaRights::READ);
    let missing = client.open_area("b", AreaRights::READ, WayWanted::Any).unwrap_err();
    assert_eq!(missing.why, Why::NotFound);
}

#[test]
fn a_store_has_no_more_areas_than_it_was_made_for() {
    let file = StoreFile::new(128 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut client, _) = daemon.session();
    for number in 0..AREAS {
        client.create(&format!("a/{number}"), GRAIN).unwrap();
    }
    let full = client.create("more", GRAIN).unwrap_err();
    assert_eq!((full.why, full.found), (Why::TooMany, AREAS.into()));
    assert_eq!(client.areas().len(), AREAS as usize);
}

#[test]
fn people_see_the_store_its_areas_and_by_which_way_each_session_reaches_them() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config("direct_max = 1"), &[]);
    let (mut client, _) = daemon.session();
    client.create("a", GRAIN).unwrap();
    let (first, _device) = client.open_area("a", AreaRights::READ, WayWanted::Any).unwrap();
    let (second, none) = client.open_area("a", AreaRights::READ, WayWanted::Any).unwrap();
    assert!(first.way == Way::Direct && second.way != Way::Direct && none.is_none());
    let status = daemon.status();
    let store = &status["store"];
    assert_eq!(store["state"], "open");
    assert_eq!(store["where"], file.path().display().to_string());
    assert_eq!((&store["durable_by"], &store["direct"]), (&json!("dsync"), &json!(1)));
    assert_eq!((&store["handles"], &store["areas"]), (&json!(3), &json!(1)));
    assert_eq!(store["listed"][0]["name"], "/store/a");
    assert_eq!((&store["listed"][0]["direct"], &store["failed"]), (&json!(1), &json!(null)));
    let pid = std::process::id();
    let text = daemon.visit().text(&heliostat_abi::session::record::Request::Explain { pid });
    let explained: serde_json::Value = serde_json::from_str(&text).unwrap();
    let areas = &explained["store"][0]["areas"];
    assert_eq!((&areas[1]["way"], &areas[2]["way"]), (&json!("direct"), &json!("emulated")));
    assert_eq!(areas[2]["why"], "as many handles are direct as may be");
    assert_eq!(client.store_info().state, StoreState::Open);
}

#[test]
fn a_change_whose_session_goes_away_is_made_all_the_same() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (client, _) = daemon.session();
    let request = heliostat_abi::session::record::Request::Own(creation("a", GRAIN).encode());
    client.socket.send(&request.encode(7), &[]).unwrap();
    drop(client);
    let (mut client, _) = daemon.session();
    await_that("the area is there", || {
        client.areas().first().is_some_and(|area| !area.is_changing && area.handles == 0)
    });
}
