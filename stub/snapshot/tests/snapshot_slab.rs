//! Versions that lie in one piece: what is copied for them, and what a view of them maps.

mod support;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_stub_snapshot::{EngineKind, Placement, Settings, View, PAGE_BYTES};
use support::region::{attach, region};

#[test]
fn a_view_of_a_slab_maps_nothing_and_a_copy_is_made_once_per_page_and_slab() {
    let length = 3 * CHUNK_BYTES;
    let mut bytes = vec![1u8; length];
    for engine in [EngineKind::Probed, EngineKind::Declared] {
        let settings = Settings { engine, placement: Placement::Slab, ..Settings::default() };
        let mut region = region(&bytes, settings);
        let (consumer, _) = attach(&mut region);
        region.publish().unwrap();
        let mut view = View::new(consumer.latest().unwrap()).unwrap();
        for round in 0..6u8 {
            let at = PAGE_BYTES * (3 + 50 * round as usize);
            bytes[at] = round + 2;
            region.declare(at..at + 1).unwrap();
            let done = region.publish().unwrap();
            // Two slabs take turns, and a third while the view is not yet told; each misses what
            // was written since it was filled. Partial pages at the ends go with every version.
            let is_filled_first = done.copied_bytes == length;
            assert!(is_filled_first || done.copied_bytes <= 6 * PAGE_BYTES, "{engine:?} {done:?}");
            assert_eq!(view.advance(consumer.latest().unwrap()), Ok(0));
            let mut shown = vec![0; length];
            view.read(0, &mut shown).unwrap();
            assert!(shown == bytes, "{engine:?} {round}");
            // SAFETY: the view shows `length` bytes until it is told otherwise.
            assert_eq!(unsafe { *view.as_ptr().add(at) }, round + 2);
        }
    }
}

#[test]
fn a_view_that_goes_on_to_another_region_shows_that_one() {
    let mut memories = [1u8, 101].map(|value| vec![value; 2 * CHUNK_BYTES + PAGE_BYTES]);
    let settings = Settings { engine: EngineKind::Declared, ..Settings::default() };
    let versions = memories.each_mut().map(|bytes| {
        let mut region = region(bytes, Settings { placement: Placement::Chunks, ..settings });
        let (consumer, _) = attach(&mut region);
        region.publish().unwrap();
        bytes[CHUNK_BYTES] += 1;
        region.declare(CHUNK_BYTES..CHUNK_BYTES + 1).unwrap();
        region.publish().unwrap();
        consumer.latest().unwrap()
    });
    let mut versions = versions.into_iter();
    let mut view = View::new(versions.next().unwrap()).unwrap();
    view.advance(versions.next().unwrap()).unwrap();
    let mut shown = vec![0; memories[1].len()];
    view.read(0, &mut shown).unwrap();
    assert!(shown == memories[1], "bytes of the region before");
}

#[test]
fn a_wait_with_a_limit_beyond_the_clock_is_one_without() {
    let bytes = vec![0u8; PAGE_BYTES];
    let mut region = region(&bytes, Settings::default());
    let (consumer, _) = attach(&mut region);
    region.publish().unwrap();
    assert!(consumer.wait(0, Some(std::time::Duration::MAX)));
}
