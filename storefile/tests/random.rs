//! Changes at random: what the store says of itself stays true.

use std::collections::BTreeMap;

use heliostat_storefile::{
    Create, Extent, Format, Identity, Kind, Name, Opened, Step, Store, StoreError, EXTENTS_MAX,
};
use proptest::prelude::*;

const GRAIN: u64 = 4096;

#[derive(Clone, Debug)]
enum Wish {
    Create(u8, u64),
    Resize(usize, u64),
    Delete(usize),
    Zero(u64),
}

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let one = prop_oneof![
        3 => (0..24u8, 1..30u64).prop_map(|(name, grains)| Wish::Create(name, grains)),
        3 => (0..24usize, 1..40u64).prop_map(|(area, grains)| Wish::Resize(area, grains)),
        2 => (0..24usize).prop_map(Wish::Delete),
        3 => (0..20u64).prop_map(Wish::Zero),
    ];
    prop::collection::vec(one, 1..120)
}

/// Whose each grain is, or `None` where nobody has said.
fn owners(store: &Store) -> BTreeMap<u64, &str> {
    let mut owners = BTreeMap::new();
    let free = store.free();
    let of_areas = store.areas().iter().map(|area| (area.name.as_str(), &area.extents));
    for (name, extents) in of_areas.chain([("", &free)]) {
        for grain in extents.iter().flat_map(|extent| extent.first..extent.end()) {
            assert_eq!(owners.insert(grain, name), None, "grain {grain} has two owners");
        }
    }
    owners
}

fn wish(store: &Store, wish: &Wish) -> Option<Result<heliostat_storefile::Change, StoreError>> {
    let generation = |place: usize| store.areas().get(place).map_or(0, |area| area.generation);
    Some(match wish {
        Wish::Create(name, grains) => store.create(&Create {
            name: Name::new(&name.to_string()).unwrap(),
            bytes: grains * GRAIN,
            owner: u32::from(*name),
            rights: 0,
            kind: Kind::Raw,
        }),
        Wish::Resize(place, grains) => store.resize(generation(*place), grains * GRAIN),
        Wish::Delete(place) => store.delete(generation(*place)),
        Wish::Zero(grains) => store.zero(grains * GRAIN)?,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_grain_has_two_owners_is_lost_or_is_given_away_before_it_is_zero(wishes in wishes()) {
        let format = Format {
            identity: Identity([3; 16]),
            device_bytes: 160 * GRAIN,
            grain_bytes: GRAIN as u32,
            areas_max: 16,
            is_zero: false,
        };
        let Opened { mut store, .. } = Store::format_over(&format).unwrap();
        let all = store.superblock().data_grains;
        // Grains whose bytes may be somebody's.
        let mut dirty: Vec<bool> = vec![true; all as usize];
        for one in &wishes {
            let Some(planned) = wish(&store, one) else { continue };
            let Ok(change) = planned else { continue };
            for step in &change.steps {
                if let Step::Zero { offset, bytes } = step {
                    let first = (offset - store.superblock().data_offset) / GRAIN;
                    (first..first + bytes / GRAIN).for_each(|at| dirty[at as usize] = false);
                }
            }
            let before: Vec<(u64, Vec<Extent>)> =
                store.areas().iter().map(|it| (it.generation, it.extents.clone())).collect();
            store.apply(change).unwrap();
            let owners = owners(&store);
            let zeroing = store.zeroing_bytes() / GRAIN;
            prop_assert_eq!(owners.len() as u64 + zeroing, all);
            for area in store.areas() {
                prop_assert!(area.extents.len() <= EXTENTS_MAX);
                prop_assert_eq!(area.grains() * GRAIN, area.bytes);
                let had = before.iter().find(|(generation, _)| *generation == area.generation);
                for grain in area.extents.iter().flat_map(|it| it.first..it.end()) {
                    let is_old = had.is_some_and(|(_, extents)| {
                        extents.iter().any(|it| (it.first..it.end()).contains(&grain))
                    });
                    prop_assert!(is_old || !dirty[grain as usize], "grain {} is not zero", grain);
                    dirty[grain as usize] = true;
                }
            }
            for grain in store.free().iter().flat_map(|it| it.first..it.end()) {
                prop_assert!(!dirty[grain as usize], "free grain {} is not zero", grain);
            }
        }
    }
}
