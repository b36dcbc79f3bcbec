//! Clients that lie, hurry, or fall silent: they cost themselves only, and the store stays whole.

mod support;

use std::os::fd::AsRawFd;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{OwnRequest, Reply, Request, REQUEST_BODY_BYTES};
use heliostat_abi::store::request::FIRST;
use heliostat_abi::store::{AreaRights, StoreRequest, WayWanted, Why};
use support::stores::{creation, sizes, StoreFile, Told, GRAIN};
use support::{await_that, Client, Daemon};

fn daemon(file: &StoreFile) -> Daemon {
    Daemon::with(&file.config(""), &[])
}

/// Every request about a handle.
fn about(handle: ObjectId) -> [StoreRequest; 6] {
    [
        StoreRequest::Close { handle },
        StoreRequest::Resize { handle, bytes: GRAIN },
        StoreRequest::Appoint { handle, others: AreaRights::ALL },
        StoreRequest::Delete { handle },
        StoreRequest::SetRate { handle, bytes_per_second: 0 },
        StoreRequest::Pieces { handle, from: 0 },
    ]
}

#[test]
fn a_handle_is_of_use_to_the_session_that_it_was_given_to_and_to_no_other() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = daemon(&file);
    let ((mut client, _), (mut thief, _)) = (daemon.session(), daemon.session());
    let area = client.create("a", 2 * GRAIN).unwrap();
    let (index, generation) = (area.handle.index, area.handle.generation);
    let others = [
        area.handle,
        area.area,
        ObjectId { index, generation: generation + 1 },
        ObjectId { index: u32::MAX, generation: u32::MAX },
        ObjectId::default(),
    ];
    for request in others.into_iter().flat_map(about) {
        assert_eq!(thief.store_no(&request).why, Why::NoHandle, "{request:?}");
    }
    assert_eq!(sizes(&client.areas()), [("a".to_owned(), 2 * GRAIN)]);
}

#[test]
fn a_handle_allows_what_it_was_opened_for() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = daemon(&file);
    let (mut client, _) = daemon.session();
    client.create("a", 2 * GRAIN).unwrap();
    let data = AreaRights::READ.and(AreaRights::WRITE);
    let (opened, _) = client.open_area("a", data, WayWanted::Emulated).unwrap();
    for request in about(opened.handle).into_iter().skip(1).take(4) {
        assert_eq!(client.store_no(&request).why, Why::Denied, "{request:?}");
    }
}

#[test]
fn malformed_requests_are_refused_and_end_their_sender_at_last() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = daemon(&file);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200u16 {
        let (mut client, _) = daemon.session();
        let mut body = [0; REQUEST_BODY_BYTES];
        body.iter_mut().for_each(|byte| *byte = next() as u8);
        let own = OwnRequest { number: FIRST + round % 17, body };
        match client.ask(&Request::Own(own)).0 {
            Reply::Refused { code: Code::BadRecord, .. } => {}
            other => panic!("{own:?}: {other:?}"),
        }
    }
    let (mut client, _) = daemon.session();
    let own = OwnRequest { number: FIRST, body: [0xff; REQUEST_BODY_BYTES] };
    (0..9).for_each(|_| drop(client.ask(&Request::Own(own))));
    assert!(client.is_ended());
    daemon.session().0.create("a", GRAIN).unwrap();
}

#[test]
fn who_does_not_wait_for_an_answer_is_told_so_and_the_change_is_made() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = daemon(&file);
    let (client, _) = daemon.session();
    // No more answers than a socket takes that nobody reads.
    for sequence in 0..6 {
        let request = Request::Own(creation(&format!("a/{sequence}"), GRAIN).encode());
        client.socket.send(&request.encode(sequence + 1), &[]).unwrap();
    }
    let mut client = client;
    let answers: Vec<u32> = (0..6).map(|_| client.receive().unwrap().1).collect();
    let mut sorted = answers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=6).collect::<Vec<_>>());
    let (mut other, _) = daemon.session();
    await_that("all are made", || {
        let areas = other.areas();
        areas.len() == 6 && areas.iter().all(|area| !area.is_changing)
    });
}

#[test]
fn who_shows_something_else_than_memory_as_a_window_gets_no_rings() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = daemon(&file);
    let (mut client, _) = daemon.session();
    let null = std::fs::File::open("/dev/null").unwrap();
    let told = client.store_with(&StoreRequest::Session, &[null.as_raw_fd()]);
    assert!(matches!(told, Told::Refused(Code::BadRecord)), "{told:?}");
    let none = client.store_with(&StoreRequest::Session, &[]);
    assert!(matches!(none, Told::Refused(Code::BadRecord)), "{none:?}");
}

#[test]
fn two_sessions_that_change_one_area_at_once_leave_it_as_one_of_them_wanted() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = daemon(&file);
    daemon.session().0.create("a", GRAIN).unwrap();
    let path = daemon.socket();
    let change = |sizes: [u64; 2]| {
        let mut client = Client::connect(path.to_str().unwrap());
        client.hello();
        let handle = client.managed("a");
        for round in 0..40 {
            let bytes = sizes[round % 2] * GRAIN;
            match client.store(&StoreRequest::Resize { handle, bytes }) {
                Told::Own(..) => {}
                Told::No(no) => assert_eq!(no.why, Why::Busy),
                other => panic!("{other:?}"),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| change([3, 9]));
        scope.spawn(|| change([5, 7]));
    });
    let (mut client, _) = daemon.session();
    let bytes = client.areas()[0].bytes;
    assert!([3, 5, 7, 9].contains(&(bytes / GRAIN)), "{bytes}");
    let handle = client.managed("a");
    client.store_done(&StoreRequest::Delete { handle });
    let whole = client.store_info();
    await_that("all is free", || {
        let info = client.store_info();
        info.free_bytes == whole.data_bytes && info.zeroing_bytes == 0
    });
}
