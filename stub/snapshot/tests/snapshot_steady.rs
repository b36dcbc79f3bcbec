//! Pages that are written in every version: left unwatched, and never missed.

mod support;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_backend_pages::track;
use heliostat_stub_snapshot::{EngineKind, Placement, Settings, Version, PAGE_BYTES};
use support::region::{attach, region};

const LENGTH: usize = 3 * CHUNK_BYTES;

fn settings(placement: Placement) -> Settings {
    Settings { engine: EngineKind::Tracked, placement, ..Settings::default() }
}

fn content(version: &Version) -> Vec<u8> {
    let mut bytes = vec![0; version.len()];
    version.read(0, &mut bytes).unwrap();
    bytes
}

/// Pages that round `round` writes: a set that stays, and what changes beside it.
fn pages(round: usize) -> Vec<usize> {
    let steady = (0..120).map(|it| it * 11);
    let strays = (0..round % 5).map(|it| (round * 37 + it * 101) % 1500);
    match round {
        // Nothing, then another set, then the first again and whole chunks.
        90..95 => vec![],
        95..130 => (0..100).map(|it| it * 13 + 5).chain(strays).collect(),
        150..190 => (512..1024).collect(),
        _ if round % 29 == 28 => (0..60).map(|it| it * 22).collect(),
        _ => steady.chain(strays).collect(),
    }
}

#[test]
fn every_version_is_what_the_memory_was_while_sets_of_pages_stay_stop_and_move() {
    if track::probe().is_err() {
        return println!("skipped: no write tracking here");
    }
    for placement in [Placement::Chunks, Placement::Slab] {
        let mut bytes = vec![0u8; LENGTH];
        let mut region = region(&bytes, settings(placement));
        let (consumer, _) = attach(&mut region);
        let mut copied_ahead = 0;
        for round in 0..260usize {
            for page in pages(round) {
                bytes[page * PAGE_BYTES + round] = round as u8 ^ page as u8 | 1;
            }
            if round >= 200 && round % 3 == 0 {
                copied_ahead += region.copy_ahead(usize::MAX).unwrap().bytes;
                // Steady pages among them, after they were copied.
                (0..40).for_each(|it| bytes[it * 11 * PAGE_BYTES] = round as u8);
            }
            region.publish().unwrap();
            assert!(content(&consumer.latest().unwrap()) == bytes, "{placement:?} {round}");
        }
        assert!(copied_ahead > 0);
    }
}

#[test]
fn a_set_that_stops_being_written_is_copied_once_more_and_then_nothing_is() {
    if track::probe().is_err() {
        return println!("skipped: no write tracking here");
    }
    let mut bytes = vec![0u8; LENGTH];
    let mut region = region(&bytes, settings(Placement::Chunks));
    for round in 0..12u8 {
        (0..50).for_each(|page| bytes[page * 7 * PAGE_BYTES] = round + 1);
        region.publish().unwrap();
    }
    let edges = 2 * PAGE_BYTES;
    let once_more = region.publish().unwrap();
    assert!(once_more.dirty_bytes <= 50 * PAGE_BYTES + edges, "{once_more:?}");
    for _ in 0..4 {
        let none = region.publish().unwrap();
        assert!(none.dirty_bytes <= edges, "{none:?}");
    }
}

#[test]
fn nobody_knows_whether_somebody_raced_in_pages_that_are_not_watched() {
    if track::probe().is_err() {
        return println!("skipped: no write tracking here");
    }
    let mut bytes = vec![0u8; LENGTH];
    let settings = Settings { looks_for_races: true, ..settings(Placement::Chunks) };
    let mut region = region(&bytes, settings);
    assert_eq!(region.publish().unwrap().has_raced, Some(false));
    bytes.fill(1);
    assert_eq!(region.publish().unwrap().has_raced, Some(false));
    for round in 2..6 {
        bytes.fill(round);
        // All of it is hot from the second time on.
        assert_eq!(region.publish().unwrap().has_raced, None);
    }
}
