//! Versions that lie in one piece: what is copied for them, and what a view of them maps.

mod support;

use heliostat_abi::snapshot::CHUNK_BYTES;
use heliostat_stub::snapshot::{EngineKind, Placement, Settings, View, PAGE_BYTES};
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
