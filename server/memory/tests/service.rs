//! The memory service on a server loop, with a session's ends of its rings and a control plane's orders.

mod support;

use heliostat_abi::file::delegated::{OneRead, OpKind, Operation, Piece};
use heliostat_abi::memory::operation::{set_argument, CopySource};
use heliostat_abi::memory::page::State;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use support::{blank, errno, handle, piece, region, Loop, AREA_BYTES, SESSION, WINDOW_BYTES};

#[test]
fn bytes_go_from_the_window_into_the_region_and_back() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    let bytes: Vec<u8> = (0..200).map(|at| at as u8).collect();
    one.window.copy_in(0, &bytes).unwrap();
    let pieces = [piece(0, 150), piece(150, 50)];
    assert_eq!(one.run(OpKind::Write, held, (30, 0), &pieces), 200);
    assert_eq!(one.bytes_of(30, 200), bytes);
    let pieces = [piece(1000, 1), piece(2000, 199)];
    assert_eq!(one.run(OpKind::Read, held, (30, 0), &pieces), 200);
    assert_eq!(
        (one.window_bytes(1000, 1), one.window_bytes(2000, 199)),
        (vec![0], bytes[1..].to_vec())
    );
}

#[test]
fn a_read_of_one_piece_is_answered_by_call_and_by_ring() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::READ);
    one.area.write(8, b"answer").unwrap();
    let read = OneRead { object: held, offset: 8, tag: 0, piece: piece(64, 6) };
    assert_eq!(one.call(read.to_words()), 6);
    assert_eq!(one.window_bytes(64, 6), b"answer");
    assert_eq!(one.run(OpKind::Read, held, (8, 0), &[piece(128, 6)]), 6);
    assert_eq!(one.window_bytes(128, 6), b"answer");
}

#[test]
fn a_transfer_of_many_turns_is_whole() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    let bytes: Vec<u8> = (0..AREA_BYTES).map(|at| (at % 251) as u8).collect();
    one.window.copy_in(0, &bytes).unwrap();
    let all = [piece(0, AREA_BYTES as u32)];
    assert_eq!(one.run(OpKind::Write, held, (0, 0), &all), AREA_BYTES as i64);
    assert_eq!(one.bytes_of(0, AREA_BYTES), bytes);
    one.window.zero(0, WINDOW_BYTES).unwrap();
    assert_eq!(one.run(OpKind::Read, held, (0, 0), &all), AREA_BYTES as i64);
    assert_eq!(one.window_bytes(0, AREA_BYTES), bytes);
}

#[test]
fn a_set_covers_what_it_says_and_nothing_else() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    let len = AREA_BYTES as u64 - 9;
    assert_eq!(one.run(OpKind::Set, held, (5, set_argument(7, len).unwrap()), &[]), len as i64);
    let found = one.bytes_of(0, AREA_BYTES);
    let is_inside = |at: usize| (5..5 + len as usize).contains(&at);
    assert!((0..AREA_BYTES).all(|at| found[at] == if is_inside(at) { 7 } else { 0 }));
}

#[test]
fn copies_overlap_as_memmove_allows_in_both_directions() {
    for (from, to) in [(0, 1000), (1000, 0), (0, 60_000), (64, 64)] {
        let mut one = Loop::new();
        let held = one.hold(1, Rights::ALL);
        let mut bytes: Vec<u8> = (0..AREA_BYTES).map(|at| (at % 251) as u8).collect();
        one.area.write(0, &bytes).unwrap();
        let len = 200_000;
        let source = CopySource { handle: held, offset: from as u64, bytes: len as u64 };
        assert_eq!(one.copy(held, to as u64, source), len as i64);
        bytes.copy_within(from..from + len, to);
        assert!(one.bytes_of(0, AREA_BYTES) == bytes, "{from} -> {to}");
    }
}

/// What a session changes in its window while a copy goes on changes nothing.
#[test]
fn a_copy_looks_once_where_it_comes_from() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    one.area.set(0, AREA_BYTES as u64, 3).unwrap();
    let source = CopySource { handle: held, offset: 0, bytes: 128 * 1024 };
    one.window.copy_in(0, &source.encode()).unwrap();
    let asked = Operation {
        kind: OpKind::Copy,
        object: held,
        offset: 128 * 1024,
        ..blank(&[piece(0, 24)])
    };
    one.submit(&asked);
    one.server.sweep();
    let other = CopySource { bytes: u64::MAX, offset: u64::MAX, ..source };
    one.window.copy_in(0, &other.encode()).unwrap();
    assert_eq!(one.next().result, 128 * 1024);
}

#[test]
fn words_change_in_one_step_and_tell_what_they_were() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ATOMIC);
    assert_eq!(one.change(OpKind::FetchAdd, held, 8, 5, 0), (8, 0));
    assert_eq!(one.change(OpKind::FetchAdd, held, 8, u64::MAX, 0), (8, 5));
    assert_eq!(one.change(OpKind::CompareSwap, held, 8, 9, 5), (0, 4));
    assert_eq!(one.change(OpKind::CompareSwap, held, 8, 1 << 63, 4), (8, 4));
    assert_eq!(one.change(OpKind::Swap, held, 8, 2, 0), (8, 1 << 63), "no errno");
    assert_eq!(one.bytes_of(8, 8), 2u64.to_le_bytes());
    assert_eq!(one.change(OpKind::Swap, held, 12, 2, 0).0, errno(libc::EINVAL));
    assert_eq!(one.change(OpKind::Swap, held, AREA_BYTES as u64, 2, 0).0, errno(libc::ERANGE));
}

#[test]
fn each_right_allows_its_own_operations_and_no_others() {
    let mut one = Loop::new();
    let (read, write, atomic) = (Rights::READ, Rights::WRITE, Rights::ATOMIC);
    for (number, rights) in
        [read, write, atomic, Rights::SHARE.and(Rights::MANAGE)].into_iter().enumerate()
    {
        let held = one.hold(number as u32 + 1, rights);
        let allowed = |right| if rights == right { 0 } else { errno(libc::EACCES) };
        let done = |result: i64| result.min(0);
        let place = [piece(0, 8)];
        assert_eq!(done(one.run(OpKind::Read, held, (0, 0), &place)), allowed(read));
        assert_eq!(done(one.run(OpKind::Write, held, (0, 0), &place)), allowed(write));
        assert_eq!(
            done(one.run(OpKind::Set, held, (0, set_argument(0, 8).unwrap()), &[])),
            allowed(write)
        );
        for kind in [OpKind::FetchAdd, OpKind::CompareSwap, OpKind::Swap] {
            assert_eq!(done(one.change(kind, held, 0, 0, 0).0), allowed(atomic));
        }
        let onto = one.hold(50, Rights::WRITE);
        let source = CopySource { handle: held, offset: 0, bytes: 8 };
        assert_eq!(done(one.copy(onto, 0, source)), allowed(read));
        let from = CopySource { handle: one.hold(51, Rights::READ), ..source };
        assert_eq!(done(one.copy(held, 0, from)), allowed(write));
    }
}

#[test]
fn beyond_the_end_nothing_is_touched() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    let refused = errno(libc::ERANGE);
    let end = AREA_BYTES as u64;
    one.window.fill(0, WINDOW_BYTES, 9).unwrap();
    for (offset, bytes) in [(end, 1), (end - 1, 2), (1 << 62, 8), (1, AREA_BYTES as u32)] {
        assert_eq!(one.run(OpKind::Write, held, (offset, 0), &[piece(0, bytes)]), refused);
        assert_eq!(one.run(OpKind::Read, held, (offset, 0), &[piece(0, bytes)]), refused);
        let set = set_argument(9, u64::from(bytes)).unwrap();
        assert_eq!(one.run(OpKind::Set, held, (offset, set), &[]), refused);
        let source = CopySource { handle: held, offset, bytes: u64::from(bytes) };
        assert_eq!(one.copy(held, 0, source), refused);
        assert_eq!(one.copy(held, offset, CopySource { offset: 0, ..source }), refused);
    }
    let whole = CopySource { handle: held, offset: 0, bytes: u64::MAX };
    assert_eq!(one.copy(held, 0, whole), refused);
    assert_eq!(one.bytes_of(0, AREA_BYTES), vec![0; AREA_BYTES]);
}

#[test]
fn handles_that_are_none_and_kinds_of_files_are_refused() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    let place = [piece(0, 8)];
    for wrong in
        [handle(2), ObjectId { generation: 2, ..held }, ObjectId { index: u32::MAX, ..held }]
    {
        assert_eq!(one.run(OpKind::Read, wrong, (0, 0), &place), errno(libc::EBADF));
        let source = CopySource { handle: wrong, offset: 0, bytes: 8 };
        assert_eq!(one.copy(held, 0, source), errno(libc::EBADF));
    }
    for kind in [OpKind::Append, OpKind::Open, OpKind::Unlink] {
        assert_eq!(one.run(kind, held, (0, 1), &place).min(0), errno(libc::EINVAL));
    }
    for kind in [OpKind::Fsync, OpKind::Close, OpKind::Truncate] {
        assert_eq!(one.run(kind, held, (0, 0), &[]), errno(libc::EINVAL));
    }
    assert_eq!(one.run(OpKind::Read, held, (0, 0), &place), 8);
}

#[test]
fn a_region_whose_word_says_that_it_is_gone_is_stale_at_once() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    one.page.set(region(1), State::Gone, 1);
    let place = [piece(0, 8)];
    assert_eq!(one.run(OpKind::Read, held, (0, 0), &place), errno(libc::ESTALE));
    let next = ObjectId { generation: 2, ..region(1) };
    one.page.set(next, State::Live, 1);
    assert_eq!(one.run(OpKind::Write, held, (0, 0), &place), errno(libc::ESTALE));
    assert_eq!(one.change(OpKind::Swap, held, 0, 1, 0).0, errno(libc::ESTALE));
}

#[test]
fn who_meets_a_region_that_moves_waits_for_its_place() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    one.page.set(region(1), State::Moving, 1);
    one.submit(&Operation { kind: OpKind::Read, object: held, ..blank(&[piece(0, 5)]) });
    one.leave(1);
    assert_eq!(one.left(), Some((0, region(1))));
    assert!(one.is_silent(), "it waits");
    let area = one.other_area();
    area.write(0, b"moved").unwrap();
    one.page.set(region(1), State::Live, 2);
    one.place(1, &area);
    assert_eq!(one.next().result, 5);
    assert_eq!(one.window_bytes(0, 5), b"moved");
}

#[test]
fn who_waits_for_a_region_that_moves_ends_with_the_handle_and_by_a_cancel() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    one.page.set(region(1), State::Moving, 1);
    let read = Operation { kind: OpKind::Read, object: held, ..blank(&[piece(0, 5)]) };
    one.submit(&read);
    assert!(one.is_silent());
    assert_eq!(one.run(OpKind::Cancel, held, (0, read.tag), &[]), errno(libc::ECANCELED));
    assert_eq!(one.next().result, 0, "the cancel itself");
    one.submit(&read);
    assert!(one.is_silent());
    one.drop_handle(held);
    assert_eq!(one.next().result, errno(libc::EBADF));
}

#[test]
fn every_handle_is_released_once_whatever_ends_it() {
    let mut one = Loop::new();
    let first = one.hold(1, Rights::ALL);
    let second = one.hold(2, Rights::ALL);
    assert_eq!(one.released(), None);
    one.drop_handle(first);
    assert_eq!(one.released(), Some((SESSION, first)));
    one.drop_handle(first);
    one.drop_handle(handle(77));
    assert_eq!(one.released(), None);
    assert_eq!(one.run(OpKind::Read, first, (0, 0), &[piece(0, 8)]), errno(libc::EBADF));
    one.end_session();
    assert_eq!(one.released(), Some((SESSION, second)));
    let late = one.hold(3, Rights::ALL);
    assert_eq!(one.released(), Some((SESSION, late)), "its session has ended");
    assert_eq!(one.released(), None);
}

#[test]
fn a_region_that_has_grown_is_used_to_its_new_end() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    let beyond = AREA_BYTES as u64;
    let place = [Piece { offset: 0, bytes: 8 }];
    assert_eq!(one.run(OpKind::Write, held, (beyond, 0), &place), errno(libc::ERANGE));
    let grown = one.grown_area();
    one.page.set(region(1), State::Live, 2);
    one.submit(&Operation { kind: OpKind::Write, object: held, offset: beyond, ..blank(&place) });
    assert!(one.is_silent(), "it waits for the order that its word announces");
    one.place(1, &grown);
    assert_eq!(one.next().result, 8);
}

/// A loop looks at rings more often than at orders.
#[test]
fn a_handle_that_an_order_brings_may_be_used_before_the_loop_has_looked_for_it() {
    let mut one = Loop::new();
    for round in 1..50 {
        one.submit(&Operation { object: handle(round), ..blank(&[piece(0, 8)]) });
        (0..round % 10).for_each(|_| _ = one.server.sweep());
        one.send_hold(round, Rights::ALL);
        assert!([8, errno(libc::EBADF)].contains(&one.next().result));
        one.send_hold(100 + round, Rights::ALL);
        assert_eq!(one.run(OpKind::Read, handle(100 + round), (0, 0), &[piece(0, 8)]), 8);
    }
}

#[test]
fn a_region_that_cannot_be_reached_is_lost_with_its_handles() {
    let mut one = Loop::new();
    let held = one.hold(1, Rights::ALL);
    one.page.set(region(1), State::Live, 2);
    one.submit(&Operation { object: held, ..blank(&[piece(0, 8)]) });
    assert!(one.is_silent());
    one.lose(1);
    assert_eq!(one.next().result, errno(libc::EBADF));
    assert_eq!(one.released(), Some((SESSION, held)));
}
