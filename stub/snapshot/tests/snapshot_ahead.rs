//! Copying ahead of a version: what is left for the version, and that a torn copy is made again.

mod support;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_backend_pages::track;
use heliostat_stub_snapshot::{EngineKind, Placement, Region, Settings, PAGE_BYTES};
use support::region::{attach, content, region};

const LENGTH: usize = 4 * CHUNK_BYTES;

fn settings(engine: EngineKind, placement: Placement) -> Settings {
    Settings { engine, placement, ..Settings::default() }
}

fn is_tracking_possible() -> bool {
    let refused = track::probe().err();
    refused.iter().for_each(|why| println!("skipped: {why}"));
    refused.is_none()
}

/// One round in pieces of `budget`; bytes copied.
fn copy_round(region: &mut Region, budget: usize) -> usize {
    let mut copied = 0;
    loop {
        let done = region.copy_ahead(budget).unwrap();
        assert!(done.bytes < budget + PAGE_BYTES);
        copied += done.bytes;
        if done.is_done {
            return copied;
        }
        assert!(done.bytes >= budget);
    }
}

#[test]
fn a_version_copies_only_what_was_written_after_the_round_also_where_chunks_were_hot() {
    if !is_tracking_possible() {
        return;
    }
    for placement in [Placement::Chunks, Placement::Slab] {
        let mut bytes = vec![0u8; LENGTH];
        let mut region = region(&bytes, settings(EngineKind::Tracked, placement));
        let (consumer, _) = attach(&mut region);
        for round in 1..5 {
            // All of it, so that a version made of it at once would turn every chunk hot.
            bytes.fill(round);
            region.publish().unwrap();
            bytes.fill(round + 100);
            assert!(copy_round(&mut region, 16 * PAGE_BYTES) >= LENGTH - 2 * PAGE_BYTES);
            let at = PAGE_BYTES * 77 * round as usize;
            bytes[at] = 7;
            let done = region.publish().unwrap();
            let copied_last = done.copied_bytes - LENGTH;
            assert!(copied_last <= 4 * PAGE_BYTES, "{placement:?} {round}: {done:?}");
            assert!(done.dirty_bytes <= LENGTH + PAGE_BYTES, "{done:?}");
            assert!(content(&consumer.latest().unwrap()) == bytes);
        }
    }
}

#[test]
fn where_it_is_in_vain_nothing_is_copied() {
    let bytes = vec![0u8; LENGTH];
    let mut blind = region(&bytes, settings(EngineKind::Whole, Placement::Chunks));
    let mut own = Region::allocate(LENGTH, Settings::default()).unwrap();
    for region in [&mut blind, &mut own] {
        let done = region.copy_ahead(usize::MAX).unwrap();
        assert_eq!((done.bytes, done.is_done), (0, true));
    }
}

#[test]
fn what_a_thread_writes_during_the_copying_is_in_the_version() {
    if !is_tracking_possible() {
        return;
    }
    let mut words = vec![0u64; LENGTH / 8];
    // SAFETY: the bytes of `words`, which outlive the region.
    let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), LENGTH) };
    let mut region = region(bytes, settings(EngineKind::Tracked, Placement::Chunks));
    let (consumer, _) = attach(&mut region);
    for _ in 0..20 {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (words, ends) = (&mut words, &ends);
            scope.spawn(move || {
                let mut at = 1usize;
                // Bounded, so that a failure beside it ends the test.
                for _ in 0..100_000_000 {
                    if ends.load(Relaxed) {
                        break;
                    }
                    at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                    words[(at >> 20) % (LENGTH / 8)] += 1;
                }
            });
            assert!((0..3).all(|_| copy_round(&mut region, 64 * PAGE_BYTES) > 0));
            ends.store(true, Relaxed);
        });
        region.publish().unwrap();
        let seen = content(&consumer.latest().unwrap());
        let seen: Vec<u64> =
            seen.chunks(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect();
        assert!(seen == words);
    }
}
