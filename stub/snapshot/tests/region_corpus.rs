//! Replays the stored corpus of the fuzz target `region_foreign`, and seeded noise, without the
//! fuzzer; writes the corpus.

mod foreign;

use std::path::{Path, PathBuf};

use foreign::region;
use foreign::step::Step;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/stub/corpus/region_foreign")
}

#[test]
fn every_stored_script_of_a_region_gets_answers() {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 10, "{} inputs", inputs.len());
    inputs.iter().for_each(|input| region::exercise(input));
}

#[test]
fn seeded_noise_gets_answers_of_regions() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200u8 {
        let mut input = vec![round, round % 16, round / 2, round, 0];
        for _ in 0..150 {
            let (what, a) = (next() as u8, next() as u16);
            input.extend(Step { what, a, word: next() }.bytes());
        }
        region::exercise(&input);
    }
}

const fn step(what: u8, a: u16, word: u64) -> Step {
    Step { what, a, word }
}

/// A version published in place 0, pinned, shown and read.
fn life(number: u64) -> Vec<Step> {
    let acts = [(2, number), (5, 0), (8, 0), (8, 4_000), (5, 0), (9, 0), (10, 0), (7, 0)];
    acts.into_iter().map(|(what, word)| step(what, 0, word)).collect()
}

fn scripts() -> Vec<(String, [u8; 5], Vec<Step>)> {
    let table = [0, 8, 0, 1, 0];
    let struck = |steps: &[Step]| [life(1), steps.to_vec(), life(2)].concat();
    let mut all: Vec<(String, [u8; 5], Vec<Step>)> = vec![
        ("life".into(), table, life(1)),
        ("pool_cut".into(), [0, 8, 0, 1, 1], life(1)),
        ("unaligned".into(), [0, 3, 200, 14, 0], life(3)),
        ("numbered".into(), table, [life(1), vec![step(6, 0, 1), step(6, 0, 7)]].concat()),
        ("pins_full".into(), table, [life(1), vec![step(5, 0, 0); 12]].concat()),
        ("latest_lost".into(), table, struck(&[step(3, 0, u64::MAX), step(5, 0, 0)])),
        ("colour_beyond".into(), table, struck(&[step(1, 0, 3 << 32 | 0xff), step(5, 0, 0)])),
        ("same_number_twice".into(), table, struck(&[step(2, 1, 1), step(2, 2, 1)])),
    ];
    for (name, offset) in [("length", 16), ("first", 24), ("chunks", 28), ("colours", 32)] {
        for value in [0u64, 1, 0xff] {
            let strike = step(4, 0, offset << 32 | value);
            all.push((format!("head_{name}_{value}"), table, struck(&[strike, step(10, 0, 0)])));
        }
    }
    let admit = [step(4, 0, 0), step(4, 1, 0), step(4, 2, 0)];
    let publish = |times| vec![step(7, 0, 0); times];
    let pin = |slot: u64, word: u64| step(0, 0, (16 + slot) << 32 | word);
    let pages = [1, 0, 0, 1, 0];
    all.extend([
        ("pages_honest".into(), pages, [admit.to_vec(), publish(9)].concat()),
        ("pages_no_mark".into(), pages, vec![step(5, 0, 0), step(7, 0, 0)]),
        ("pages_pin_all".into(), pages, {
            let pins: Vec<_> = (0..8).flat_map(|slot| [pin(slot, slot), publish(1)[0]]).collect();
            [admit.to_vec(), pins].concat()
        }),
        ("pages_leave".into(), pages, {
            let acts = [pin(0, 3), publish(1)[0], step(6, 0, 0), publish(1)[0]];
            [admit.to_vec(), publish(2), acts.to_vec()].concat()
        }),
        ("pages_many".into(), pages, [vec![admit[0]; 70], publish(3)].concat()),
        ("pages_any_word".into(), pages, {
            let words = (0..64).map(|at| step(3, 0, at << 32 | 0xffff_ffff));
            admit.into_iter().chain(words).chain(publish(4)).collect()
        }),
    ]);
    all
}

/// Run by hand when the layout changes:
/// `cargo test -p heliostat-stub-snapshot --test region_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_seeds() {
    std::fs::create_dir_all(folder()).expect("writable");
    for (name, head, steps) in scripts() {
        let steps = steps.into_iter().flat_map(Step::bytes);
        let input: Vec<u8> = head.into_iter().chain(steps).collect();
        std::fs::write(folder().join(name), input).expect("writable");
    }
}
