//! Records of delegated operations, there and back, and what is refused.

use super::*;
use crate::name::ObjectId;

const WINDOW: u64 = 1 << 20;

fn read(pieces: &[Piece]) -> Operation {
    Operation {
        kind: OpKind::Read,
        object: ObjectId { index: 3, generation: 9 },
        offset: 4096,
        tag: 77,
        timeout_us: 5,
        argument: 0,
        pieces: Pieces::new(pieces).unwrap(),
    }
}

fn bytes_of(operation: &Operation) -> Vec<u8> {
    let mut bytes = [0; OPERATION_BYTES_MAX];
    let length = operation.encode(&mut bytes);
    bytes[..length].to_vec()
}

fn reason(bytes: &[u8]) -> Option<Reason> {
    Operation::decode(bytes, WINDOW).err().map(|malformed| malformed.reason)
}

#[test]
fn an_operation_survives_its_way() {
    let pieces: Vec<_> = (0..16).map(|n| Piece { offset: n * 100, bytes: 50 }).collect();
    for count in [1, 2, 16] {
        let operation = read(&pieces[..count]);
        assert_eq!(Operation::decode(&bytes_of(&operation), WINDOW), Ok(operation));
    }
    assert!(Pieces::new(&[Piece::default(); 17]).is_none());
}

#[test]
fn with_one_piece_it_fills_a_cache_line_beside_the_rings_header() {
    assert_eq!(bytes_of(&read(&[Piece { offset: 0, bytes: 1 }])).len() + 8, 64);
}

/// One byte after the other, each with the values at which a check turns.
#[test]
fn a_read_of_one_piece_is_told_from_its_bytes_exactly_when_the_operation_is_one() {
    let usual = Operation { timeout_us: 0, ..read(&[Piece { offset: 64, bytes: 4096 }]) };
    let good = bytes_of(&usual);
    let one = OneRead::of(&usual).unwrap();
    assert_eq!((&one.encode()[..], OneRead::decode(&good, WINDOW)), (&good[..], Some(one)));
    let mut told = 0;
    for at in 0..good.len() {
        for value in [0, 1, 2, 3, 0x10, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let operation = Operation::decode(&bytes, WINDOW).ok();
            let wanted = operation.and_then(|operation| OneRead::of(&operation));
            assert_eq!(OneRead::decode(&bytes, WINDOW), wanted, "byte {at} is {value}");
            told += usize::from(wanted.is_some());
        }
    }
    assert!((100..400).contains(&told), "{told}");
    assert_eq!(OneRead::of(&Operation { argument: 1, ..usual }), None, "to be refused, not lost");
    assert_eq!(OneRead::from_words(one.to_words(), WINDOW), Some(OneRead { tag: 0, ..one }));
    for (at, wrong) in [(1, u64::MAX), (2, WINDOW), (2, u64::MAX), (3, 0), (3, 1 << 32 | 4096)] {
        let mut words = one.to_words();
        words[at] = wrong;
        assert_eq!(OneRead::from_words(words, WINDOW), None, "{at} {wrong}");
    }
    let most = Piece { offset: 0, bytes: TRANSFER_BYTES_MAX as u32 + 1 };
    let over = bytes_of(&Operation { timeout_us: 0, ..read(&[most]) });
    assert_eq!(OneRead::decode(&over, WINDOW_BYTES_MAX), None);
    for wrong in [&good[..55], &[&good[..], &[0]].concat()] {
        assert_eq!(OneRead::decode(wrong, WINDOW), None);
    }
}

#[test]
fn pieces_outside_the_window_are_refused() {
    for (offset, bytes) in [(WINDOW, 1), (WINDOW - 1, 2), (u64::MAX, 2), (0, 0), (1, u32::MAX)] {
        let found = reason(&bytes_of(&read(&[Piece { offset, bytes }])));
        assert_eq!(found, Some(Reason::Window), "{offset} {bytes}");
    }
    assert_eq!(reason(&bytes_of(&read(&[Piece { offset: WINDOW - 1, bytes: 1 }]))), None);
}

#[test]
fn every_kind_has_its_own_pieces() {
    let one = [Piece { offset: 0, bytes: 64 }];
    let small = [Piece { offset: 0, bytes: 63 }];
    let with = |kind, argument, pieces: &[Piece]| {
        reason(&bytes_of(&Operation { kind, argument, ..read(pieces) }))
    };
    for kind in [OpKind::Read, OpKind::Write, OpKind::Append] {
        assert_eq!((with(kind, 0, &one), with(kind, 0, &[])), (None, Some(Reason::Pieces)));
        assert_eq!(with(kind, 1, &one), Some(Reason::Argument));
    }
    for kind in [OpKind::Fsync, OpKind::Close, OpKind::Truncate, OpKind::Lock] {
        assert_eq!((with(kind, 0, &[]), with(kind, 0, &one)), (None, Some(Reason::Pieces)));
    }
    assert_eq!(with(OpKind::Cancel, u64::MAX, &[]), None);
    assert_eq!(with(OpKind::Stat, 0, &one), None);
    assert_eq!(with(OpKind::Stat, 0, &small), Some(Reason::Pieces));
    assert_eq!(with(OpKind::Open, READ | DIRECT, &one), None);
    for argument in [0, DIRECT, READ | 256] {
        assert_eq!(with(OpKind::Open, argument, &one), Some(Reason::Argument));
    }
}

#[test]
fn names_take_as_many_pieces_as_they_are_and_none_is_longer_than_a_path() {
    let place = |bytes| Piece { offset: 0, bytes };
    let with = |kind, pieces: &[Piece]| {
        reason(&bytes_of(&Operation { kind, argument: 0, ..read(pieces) }))
    };
    for kind in [OpKind::Mkdir, OpKind::Rmdir, OpKind::Unlink] {
        assert_eq!(with(kind, &[place(4096)]), None);
        for wrong in [&[][..], &[place(4097)], &[place(1), place(1)]] {
            assert_eq!(with(kind, wrong), Some(Reason::Pieces));
        }
    }
    for kind in [OpKind::Rename, OpKind::Symlink] {
        assert_eq!(with(kind, &[place(4096), place(1)]), None);
        for wrong in [&[place(1)][..], &[place(1), place(4097)], &[place(1); 3]] {
            assert_eq!(with(kind, wrong), Some(Reason::Pieces));
        }
    }
    assert_eq!(with(OpKind::Readlink, &[place(1), place(5000)]), None);
    assert_eq!(with(OpKind::Readlink, &[place(4097), place(1)]), Some(Reason::Pieces));
    assert_eq!(with(OpKind::Fetch, &[place(1), place(5000), place(9)]), None);
    assert_eq!(with(OpKind::Fetch, &[place(1)]), Some(Reason::Pieces));
    assert_eq!(with(OpKind::Fetch, &[place(4097), place(1)]), Some(Reason::Pieces));
}

#[test]
fn a_directory_is_read_from_any_cookie_into_pieces_that_hold_an_entry() {
    let least = ENTRY_BYTES_MAX as u32;
    let with = |offset, pieces: &[Piece]| {
        reason(&bytes_of(&Operation { kind: OpKind::Readdir, offset, ..read(pieces) }))
    };
    let halves = [Piece { offset: 0, bytes: least / 2 }; 2];
    assert_eq!(with(i64::MAX as u64, &halves), None);
    assert_eq!(with(1 << 63, &halves), Some(Reason::Transfer));
    let short = [Piece { offset: 0, bytes: least - 1 }];
    assert_eq!(with(0, &short), Some(Reason::Pieces));
}

#[test]
fn lengths_reserved_bytes_kinds_and_ends_are_checked() {
    let good = bytes_of(&read(&[Piece { offset: 0, bytes: 64 }]));
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        reason(&bytes)
    };
    assert_eq!(changed(0, 200), Some(Reason::Kind));
    assert_eq!(changed(1, 1), Some(Reason::Reserved));
    assert_eq!(changed(2, 2), Some(Reason::Length));
    assert_eq!(changed(3, 1), Some(Reason::Reserved));
    assert_eq!(changed(23, 0x7f), None);
    assert_eq!(changed(23, 0x80), Some(Reason::Transfer));
    assert_eq!(changed(55, 1), Some(Reason::Reserved));
    assert_eq!(reason(&good[..55]), Some(Reason::Length));
    let short = Operation::decode(&good[..39], WINDOW).unwrap_err();
    assert_eq!(short, Malformed { tag: None, reason: Reason::Length });
    assert_eq!(Operation::decode(&good[..55], WINDOW).unwrap_err().tag, Some(77));
    let most = Piece { offset: 0, bytes: TRANSFER_BYTES_MAX as u32 };
    let over = bytes_of(&read(&[most, Piece { offset: 0, bytes: 1 }]));
    let found = Operation::decode(&over, WINDOW_BYTES_MAX).unwrap_err().reason;
    assert_eq!(found, Reason::Transfer);
}

#[test]
fn a_place_among_the_pieces_is_found_by_what_lies_before_it() {
    let pieces =
        Pieces::new(&[Piece { offset: 100, bytes: 10 }, Piece { offset: 0, bytes: 5 }]).unwrap();
    assert_eq!(pieces.at(0), Some(Piece { offset: 100, bytes: 10 }));
    assert_eq!(pieces.at(9), Some(Piece { offset: 109, bytes: 1 }));
    assert_eq!(pieces.at(12), Some(Piece { offset: 2, bytes: 3 }));
    assert_eq!(pieces.at(15), None);
}

#[test]
fn completions_and_facts_survive_their_way() {
    let completion = Completion { tag: 5, result: -22, generation: 7, way: Way::Direct };
    let bytes = completion.encode();
    assert_eq!(Completion::decode(&bytes), Some(completion));
    let mut wrong = bytes;
    wrong[20] = 5;
    assert_eq!((Completion::decode(&wrong), Completion::decode(&bytes[1..])), (None, None));
    wrong = bytes;
    wrong[23] = 1;
    assert_eq!(Completion::decode(&wrong), None);
    let facts = Facts { size: 1, inode: 2, device: 3, modified: (-4, 5), mode: 6, uid: 7, gid: 8 };
    assert_eq!(Facts::decode(&facts.encode()), facts);
}
