//! What was written reads back; what was changed in one bit, or lies elsewhere, does not.

use proptest::prelude::*;

use super::*;

const SEED: [u8; 16] = *b"of the one log..";

fn entry(payload: &[u8], at: u64, sequence: u64, generation: u32) -> (EntryHeader, Vec<u8>) {
    let header = EntryHeader {
        kind: EntryKind::Payload,
        length: payload.len() as u32,
        payload: PayloadChecksum::of(payload),
        position: Position { at, sequence },
        generation,
        unsettled: 24,
    };
    let mut bytes = header.encode(Seed::of(&SEED)).to_vec();
    bytes.extend(payload);
    (header, bytes)
}

fn header() -> Header {
    let mut marks = Marks::default();
    marks.set(3);
    Header {
        sector_bytes: 512,
        identity: SEED,
        data_bytes: 1 << 20,
        window_bytes: 1 << 16,
        counter: 7,
        generation: 3,
        longest: 1000,
        begin: Position { at: 80, sequence: 1 },
        end: Position { at: 1 << 19, sequence: 900 },
        marks,
    }
}

fn read(bytes: &[u8], place: Position, seed: Seed) -> Result<EntryHeader, Broken> {
    let found = EntryHeader::decode(bytes, place, 1 << 20, seed)?;
    let end = ENTRY_BYTES as usize + found.length as usize;
    found.check(bytes.get(ENTRY_BYTES as usize..end).unwrap_or_default()).map(|()| found)
}

proptest! {
    #[test]
    fn an_entry_reads_back_at_its_place_and_nowhere_else(
        payload in proptest::collection::vec(any::<u8>(), 0..2000),
        at in 0..POSITION_MAX, sequence in any::<u64>(), generation in any::<u32>(), other in 1..u32::MAX,
    ) {
        let at = at / 8 * 8;
        let (wanted, bytes) = entry(&payload, at, sequence, generation);
        let seed = Seed::of(&SEED);
        let place = Position { at, sequence };
        prop_assert_eq!(read(&bytes, place, seed), Ok(wanted));
        let elsewhere = Position { at: at ^ u64::from(other) << 3, sequence };
        prop_assert_eq!(read(&bytes, elsewhere, seed), Err(Broken::Place { found: at }));
        let later = Position { at, sequence: sequence.wrapping_add(other.into()) };
        prop_assert_eq!(read(&bytes, later, seed), Err(Broken::Sequence { found: sequence as u32 }));
        prop_assert_eq!(read(&bytes, place, Seed::of(&[9; 16])), Err(Broken::HeaderChecksum));
    }

    #[test]
    fn an_entry_with_one_changed_bit_or_a_missing_byte_is_refused(
        payload in proptest::collection::vec(any::<u8>(), 0..300), bit in any::<usize>(), cut in any::<usize>(),
    ) {
        let place = Position { at: 4096, sequence: 5 };
        let (_, mut bytes) = entry(&payload, place.at, place.sequence, 2);
        let cut = cut % bytes.len();
        prop_assert!(read(&bytes[..cut], place, Seed::of(&SEED)).is_err());
        let bit = bit % (8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read(&bytes, place, Seed::of(&SEED)).is_err());
    }

    #[test]
    fn a_header_block_with_one_changed_bit_is_refused(bit in 0..8 * HEADER_BYTES) {
        let mut bytes = header().encode();
        prop_assert_eq!(Header::decode(&bytes), Ok(header()));
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Header::decode(&bytes).is_err());
    }

    #[test]
    fn marks_keep_their_entries_while_the_begin_moves(
        marked in proptest::collection::btree_set(0..Marks::ENTRIES, 0..40), by in 0..3000u64,
    ) {
        let mut marks = Marks::default();
        prop_assert!(marked.iter().all(|entry| marks.set(*entry)));
        let moved = marks.after(by);
        for entry in 0..Marks::ENTRIES {
            prop_assert_eq!(moved.has(entry), marked.contains(&(entry + by)));
        }
    }
}

#[test]
fn a_mark_behind_the_last_one_is_refused() {
    let mut marks = Marks::default();
    assert!(marks.set(Marks::ENTRIES - 1));
    assert!(!marks.set(Marks::ENTRIES));
    assert!(!marks.set(u64::MAX));
    assert!(!marks.has(u64::MAX));
}

#[test]
fn header_blocks_that_contradict_themselves_are_refused_with_the_field() {
    let wrong = |change: fn(&mut Header), name| {
        let mut header = header();
        change(&mut header);
        match Header::decode(&header.encode()) {
            Err(HeaderError::Field { name: found, .. }) => assert_eq!(found, name),
            other => panic!("{name}: {other:?}"),
        }
    };
    wrong(|header| header.sector_bytes = 1024, "sector");
    wrong(|header| header.sector_bytes = 0, "sector");
    wrong(|header| header.data_bytes += 8, "number of data bytes");
    wrong(|header| header.data_bytes = u64::MAX / 512 * 512, "number of data bytes");
    wrong(|header| header.window_bytes = 1 << 21, "window");
    wrong(|header| header.window_bytes += 512, "window");
    wrong(|header| header.longest = 1 << 17, "longest payload");
    wrong(|header| header.begin.at += 4, "begin");
    wrong(|header| header.end.at = 1 << 63, "end");
    wrong(|header| header.end.at += 1 << 20, "begin");
    wrong(|header| header.begin.sequence = 901, "begin");
    wrong(|header| header.end.sequence = u64::MAX, "sequence number");
}

#[test]
fn only_an_entry_that_knew_of_the_acknowledgement_proves_it() {
    let search = Search { cut: 800, data_bytes: 4096, generation: 3, seed: Seed::of(&SEED) };
    // Each was sealed when everything but 24 bytes before it was durable.
    let proves = |at, generation| search.is_proof(at % 4096, &entry(b"x", at, 20, generation).1);
    assert!(proves(832, 3), "everything before 808 was durable");
    assert!(!proves(824, 3), "everything before 800 was durable, and so not the cut");
    assert!(!proves(832, 2), "an earlier opening");
    assert!(proves(800, 4), "an opening that the header does not know");
    assert!(proves(800 + 4096, 3), "a later round");
    assert!(!proves(792, 4), "before the cut");
    let (_, bytes) = entry(b"x", 840, 20, 3);
    assert!(!search.is_proof(848, &bytes), "it lies elsewhere");
    assert!(!search.is_proof(840, &bytes[..31]));
    let other = Search { seed: Seed::of(&[1; 16]), ..search };
    assert!(!other.is_proof(840, &bytes), "of another log");
}
