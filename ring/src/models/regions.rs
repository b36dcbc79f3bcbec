//! Who looks at a region's word sees what was put down before it, and an area that grows is whole.

use std::sync::Arc as Shared;

use heliostat_abi::memory::page::State;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use loom::sync::Arc;
use loom::thread;

use crate::region_page::{look, tell};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::Area;

const REGION: ObjectId = ObjectId { index: 3, generation: 7 };

/// The control plane puts down where a region lies, says so, moves on, and ends it; another region of
/// the place follows. A reader acts on what it knows of the epoch that it has seen, and on nothing else.
#[test]
fn a_reader_that_sees_an_epoch_sees_what_was_put_down_for_it() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(0));
        let places: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (told, put) = (word.clone(), places.clone());
        let writer = thread::spawn(move || {
            put[0].store(100, Relaxed);
            tell(&told, REGION, State::Live, 1);
            put[1].store(200, Relaxed);
            tell(&told, REGION, State::Live, 2);
            tell(&told, REGION, State::Gone, 0);
            let next = ObjectId { generation: REGION.generation + 1, ..REGION };
            tell(&told, next, State::Live, 1);
        });
        for _ in 0..2 {
            match look(&word, REGION) {
                (State::Live, 1) => assert_eq!(places[0].load(Relaxed), 100),
                (State::Live, 2) => {
                    assert_eq!([0, 1].map(|at| places[at].load(Relaxed)), [100, 200]);
                }
                (State::Gone, _) => {}
                other => panic!("{other:?}"),
            }
        }
        writer.join().expect("ends");
        assert_eq!(look(&word, REGION).0, State::Gone);
    });
}

/// As a program does it that has mapped the region: word, epoch, area.
#[test]
fn an_area_is_as_long_as_it_says_while_it_grows() {
    loom::model(|| {
        let memory = SharedMapping::create(c"arena", 4096).expect("memory").1;
        let memory = Shared::new(memory);
        let piece = |at, bytes| (memory.clone(), at, bytes);
        let area = Arc::new(Area::new([piece(0, 64)], 64).expect("fits"));
        let epoch = Arc::new(AtomicU64::new(1));
        let longer = Area::new([piece(0, 128), piece(1024, 64)], 192).expect("fits");
        let (grown, known) = (area.clone(), epoch.clone());
        let writer = thread::spawn(move || {
            assert!(grown.grow_to(&longer));
            known.store(2, Release);
        });
        let seen = epoch.load(Acquire);
        let bytes = area.bytes();
        assert!(seen == 1 || bytes == 192);
        for at in [0, bytes / 2, bytes - 8] {
            area.read(at, &mut [0; 8]).expect("it lies there");
        }
        writer.join().expect("ends");
    });
}
