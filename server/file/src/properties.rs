//! Random sequences over the cache, against a plain model.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Look(u64),
    Begin(u64),
    Fill(u64),
    Fail(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let block = 0..24_u64;
    prop_oneof![
        block.clone().prop_map(Step::Look),
        block.clone().prop_map(Step::Begin),
        block.clone().prop_map(Step::Fill),
        block.prop_map(Step::Fail),
    ]
}

proptest! {
    /// Whatever happens, a place holds one block, a block one place, and never more than fit.
    #[test]
    fn places_are_never_shared(steps in prop::collection::vec(step(), 1..400), size in 0..9_u32) {
        let mut cache: Cache<u64> = Cache::new(size);
        let mut filling: HashMap<u64, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Look(block) => {
                    let found = cache.look(key(block));
                    prop_assert_eq!(found == Found::Filling, filling.contains_key(&block));
                }
                Step::Begin(block) => if let Some(place) = cache.begin(key(block)) {
                    prop_assert!(!filling.values().any(|other| *other == place));
                    prop_assert!(cache.wait(key(block), block));
                    filling.insert(block, place);
                },
                Step::Fill(block) => if let Some(place) = filling.remove(&block) {
                    prop_assert_eq!(cache.filled(place, 1), vec![block]);
                },
                Step::Fail(block) => if let Some(place) = filling.remove(&block) {
                    prop_assert_eq!(cache.failed(place), vec![block]);
                },
            }
            prop_assert!(cache.len() <= size as usize);
            let mut places: Vec<_> = (0..24).filter_map(|block| match cache.peek(key(block)) {
                Found::Ready { place, .. } => Some(place),
                _ => filling.get(&block).copied(),
            }).collect();
            let count = places.len();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!((count, count), (places.len(), cache.len()));
        }
    }
}

fn key(block: u64) -> BlockKey {
    BlockKey { file: 0, block }
}
