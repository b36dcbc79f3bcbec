//! An area against an ordinary vector: every access, at every place of small pieces.

use std::sync::Arc;

use heliostat_base::mapping::{Access, OutOfRange, SharedMapping};
use proptest::prelude::*;

use super::Area;

const ARENA: usize = 4096;

fn arenas() -> [Arc<SharedMapping>; 2] {
    [c"first", c"second"].map(|name| Arc::new(SharedMapping::create(name, ARENA).unwrap().1))
}

/// Four pieces that lie in neither order nor one arena, 100 bytes together of which 92 count.
fn area(arenas: &[Arc<SharedMapping>; 2]) -> Area {
    let piece = |arena: usize, at, bytes| (arenas[arena].clone(), at, bytes);
    let pieces = [piece(0, 64, 24), piece(1, 128, 8), piece(0, 0, 40), piece(0, 1024, 28)];
    Area::new(pieces, 92).unwrap()
}

fn bytes_of(area: &Area) -> Vec<u8> {
    let mut found = vec![0; area.bytes() as usize];
    area.read(0, &mut found).unwrap();
    found
}

#[test]
fn bytes_are_read_where_they_were_written_at_every_place_and_length() {
    let arenas = arenas();
    let area = area(&arenas);
    let window = SharedMapping::create(c"window", ARENA).unwrap().1;
    for offset in 0..92 {
        for len in [0, 1, 7, 8, 41, 92 - offset].into_iter().filter(|len| offset + len <= 92) {
            area.set(0, 92, 7).unwrap();
            let bytes: Vec<u8> = (0..len).map(|at| at as u8 + 100).collect();
            area.write(offset as u64, &bytes).unwrap();
            let mut wanted = vec![7; 92];
            wanted[offset..offset + len].copy_from_slice(&bytes);
            assert_eq!(bytes_of(&area), wanted, "{len} at {offset}");
            area.read_to(offset as u64, (&window, 5), len as u64, 1).unwrap();
            let mut found = vec![0; len];
            window.copy_out(5, &mut found).unwrap();
            assert_eq!(found, bytes);
            area.set(0, 92, 7).unwrap();
            area.write_from(offset as u64, (&window, 5), len as u64, 1).unwrap();
            assert_eq!(bytes_of(&area), wanted);
        }
    }
}

/// While somebody else counts in it.
#[test]
fn an_area_that_grows_keeps_its_bytes_and_has_those_that_came() {
    let arenas = arenas();
    let piece = |arena: usize, at, bytes| (arenas[arena].clone(), at, bytes);
    let area = Area::new([piece(0, 64, 24)], 20).unwrap();
    let steps = [
        (vec![piece(0, 64, 40)], 33),
        (vec![piece(0, 64, 48), piece(1, 128, 8)], 56),
        (vec![piece(0, 64, 48), piece(1, 128, 16), piece(0, 1024, 40)], 100),
        (vec![piece(0, 64, 48), piece(1, 128, 16), piece(0, 1024, 40), piece(1, 0, 64)], 160),
    ];
    std::thread::scope(|scope| {
        let counter = scope.spawn(|| {
            let mut rounds = 0;
            while area.bytes() < 160 || rounds == 0 {
                area.fetch_add(8, 1).unwrap();
                let last = area.bytes() - 8;
                area.copy(0, (&area, last), 8).unwrap();
                rounds += 1;
            }
            rounds
        });
        let mut before = 20;
        for (pieces, bytes) in steps {
            let longer = Area::new(pieces, bytes).unwrap();
            assert!(area.grow_to(&longer) && area.bytes() == bytes);
            assert_eq!(
                area.read(bytes - 1, &mut [0; 2]).map_err(|it| it.limit),
                Err(bytes as usize)
            );
            area.write(before - 4, b"across").unwrap();
            let mut found = [0; 6];
            longer.read(before - 4, &mut found).unwrap();
            before = bytes;
        }
        let rounds = counter.join().unwrap();
        assert_eq!(area.fetch_add(8, 0).unwrap(), rounds);
    });
    let mut wanted = vec![0; 160];
    Area::new([piece(0, 64, 48), piece(1, 128, 16), piece(0, 1024, 40), piece(1, 0, 64)], 160)
        .unwrap()
        .read(0, &mut wanted)
        .unwrap();
    assert_eq!(bytes_of(&area), wanted);
    for (elsewhere, bytes) in [(vec![piece(1, 64, 4000)], 4000), (vec![piece(0, 64, 48)], 40)] {
        assert!(!area.grow_to(&Area::new(elsewhere, bytes).unwrap()) && area.bytes() == 160);
    }
}

#[test]
fn bytes_of_one_piece_have_a_place_and_those_of_several_have_none() {
    let arenas = arenas();
    let area = area(&arenas);
    let place = |offset, bytes| {
        let found = area.in_one(offset, bytes).unwrap();
        found.map(|(memory, at)| (Arc::ptr_eq(memory, &arenas[1]), at))
    };
    assert_eq!((place(0, 24), place(23, 1)), (Some((false, 64)), Some((false, 87))));
    assert_eq!((place(24, 8), place(32, 40)), (Some((true, 128)), Some((false, 0))));
    assert_eq!((place(23, 2), place(0, 92), place(31, 1)), (None, None, Some((true, 135))));
    assert_eq!(place(72, 20), Some((false, 1024)));
    let beyond = OutOfRange { offset: 72, len: 21, limit: 92 };
    assert_eq!(area.in_one(72, 21).map(|found| found.is_some()), Err(beyond));
}

#[test]
fn memory_meets_the_area_where_a_byte_of_it_is_the_areas() {
    let arenas = arenas();
    let area = area(&arenas);
    let meets = |arena: usize, from: usize, to: usize| {
        let start = arenas[arena].as_ptr() as usize;
        area.meets(&(start + from..start + to))
    };
    assert!(meets(0, 87, 90) && meets(0, 0, 1) && meets(1, 100, 129) && meets(1, 0, ARENA));
    assert!(!meets(0, 40, 64) && !meets(0, 88, 1024) && !meets(1, 136, 200) && !meets(0, 5, 5));
}

#[test]
fn what_lies_beside_the_pieces_and_behind_the_last_byte_is_never_touched() {
    let arenas = arenas();
    let area = area(&arenas);
    arenas.iter().for_each(|arena| arena.fill(0, ARENA, 9).unwrap());
    area.set(0, 92, 7).unwrap();
    let ours = [(0, 64..88), (1, 128..136), (0, 0..40), (0, 1024..1044)];
    for (number, arena) in arenas.iter().enumerate() {
        let mut found = vec![0; ARENA];
        arena.copy_out(0, &mut found).unwrap();
        let is_ours = |at: usize| ours.iter().any(|(its, all)| *its == number && all.contains(&at));
        assert!((0..ARENA).all(|at| found[at] == if is_ours(at) { 7 } else { 9 }));
    }
}

#[test]
fn every_access_beyond_the_end_is_refused_and_changes_nothing() {
    let arenas = arenas();
    let area = area(&arenas);
    let window = SharedMapping::create(c"window", ARENA).unwrap().1;
    for (offset, len) in [(92, 1), (91, 2), (0, 93), (u64::MAX, 1), (u64::MAX, 2), (1 << 40, 0)] {
        let limit = OutOfRange { offset: offset as usize, len: len as usize, limit: 92 };
        assert_eq!(area.read(offset, &mut vec![0; len as usize]), Err(limit));
        assert_eq!(area.write(offset, &vec![0; len as usize]), Err(limit));
        assert_eq!(area.set(offset, len, 1), Err(limit));
        assert_eq!(area.read_to(offset, (&window, 0), len, 1), Err(limit));
        assert_eq!(area.write_from(offset, (&window, 0), len, 1), Err(limit));
        assert!(len == 0 || area.copy(offset, (&area, 0), len).is_err());
        assert!(len == 0 || area.copy(0, (&area, offset), len).is_err());
    }
    assert!(area.read_to(0, (&window, ARENA as u64 - 4), 8, 1).is_err());
    assert!(area.write_from(0, (&window, u64::MAX), 8, 1).is_err());
    assert_eq!(bytes_of(&area), [0; 92]);
}

#[test]
fn words_change_in_one_step_at_multiples_of_eight_inside() {
    let arenas = arenas();
    let area = area(&arenas);
    for offset in (0..88).step_by(8) {
        assert_eq!(area.fetch_add(offset, 5), Ok(0));
        assert_eq!(area.fetch_add(offset, u64::MAX), Ok(5));
        assert_eq!(area.compare_swap(offset, 5, 9), Ok(4), "it is another");
        assert_eq!(area.compare_swap(offset, 4, 9), Ok(4));
        assert_eq!(area.swap(offset, offset), Ok(9));
    }
    for offset in [1, 4, 84, 88, 92, u64::MAX, u64::MAX - 7] {
        assert!(area.fetch_add(offset, 1).is_err(), "{offset}");
        assert!(area.compare_swap(offset, 0, 1).is_err());
        assert!(area.swap(offset, 1).is_err());
    }
    let wanted: Vec<u8> = (0..88u64).step_by(8).flat_map(u64::to_le_bytes).collect();
    assert_eq!(bytes_of(&area)[..88], wanted);
}

#[test]
fn pieces_that_lie_elsewhere_or_askew_are_no_area() {
    let [first, _] = arenas();
    let (fd, _) = SharedMapping::create(c"read", ARENA).unwrap();
    let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
    let read = Arc::new(SharedMapping::from_fd(raw, ARENA, Access::Read).unwrap());
    let one = |at, bytes| Area::new([(first.clone(), at, bytes)], 1).is_ok();
    assert!(one(0, 4096) && one(4088, 8));
    let wrong = [(0, 0), (0, 4097), (4096, 8), (4, 8), (u64::MAX - 7, 8), (8, u64::MAX)];
    assert_eq!(wrong.into_iter().find(|(at, bytes)| one(*at, *bytes)), None);
    assert!(Area::new([(read, 0, 8)], 8).is_err(), "mapped for reading");
    assert!(Area::new([(first.clone(), 0, 12), (first.clone(), 64, 8)], 20).is_err());
    assert!(Area::new([(first.clone(), 0, 8)], 9).is_err(), "more bytes than there are");
    assert_eq!(Area::new([], 0).unwrap().bytes(), 0);
}

proptest! {
    /// As a vector's copy_within, whole or in steps of any size, also where both lie in one another.
    #[test]
    fn copies_are_those_of_memmove(
        (from, to) in (0usize..92, 0usize..92),
        len in 0usize..92,
        step in 1u64..50,
    ) {
        let len = len.min(92 - from.max(to));
        let arenas = arenas();
        let area = area(&arenas);
        let before: Vec<u8> = (0..92).collect();
        let mut wanted = before.clone();
        wanted.copy_within(from..from + len, to);
        area.write(0, &before).unwrap();
        area.copy(from as u64, (&area, to as u64), len as u64).unwrap();
        prop_assert_eq!(bytes_of(&area), &wanted[..]);
        area.write(0, &before).unwrap();
        let mut done = 0;
        while done < len as u64 {
            let target = (&area, to as u64);
            let moved = area.copy_some(from as u64, target, (len as u64, done), step).unwrap();
            prop_assert!((1..=step).contains(&moved));
            done += moved;
        }
        prop_assert_eq!(bytes_of(&area), &wanted[..]);
    }
}
