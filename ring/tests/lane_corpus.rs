//! Replays the stored corpus of the fuzz target `lane_foreign`, and seeded noise, without the
//! fuzzer; writes the corpus.

mod lane_foreign;

use lane_foreign::step::Step;
use lane_foreign::{exercise, OTHERS, POSITIONS, SIGNALS};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/ring/corpus/lane_foreign")
}

#[test]
fn every_stored_input_gets_answers() {
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder()).expect("the corpus is stored") {
        exercise(&std::fs::read(entry.expect("listed").path()).expect("readable"));
        inputs += 1;
    }
    assert!(inputs >= 10, "{inputs} inputs");
}

/// Xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Numbers that belong into a word as often as not.
    fn word(&mut self) -> u64 {
        let value = self.next();
        match value >> 61 {
            0 | 1 => value % 32,
            2 | 3 => value % (1 << 14),
            4 => u64::MAX - value % (1 << 14),
            _ => value,
        }
    }
}

/// A script of `steps` steps whose kinds are drawn from `kinds`.
fn script(noise: &mut Noise, shape: u8, kinds: &[u8], steps: usize) -> Vec<u8> {
    let mut input = vec![shape];
    for _ in 0..steps {
        let what = kinds[noise.next() as usize % kinds.len()];
        let step = Step { what, a: noise.word() as u16, word: noise.word() };
        input.extend(step.bytes());
    }
    input
}

#[test]
fn a_lane_is_a_queue_while_both_sides_are_honest() {
    for seed in 1..=200u64 {
        let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let shape = noise.next() as u8;
        exercise(&script(&mut noise, shape, &[4, 4, 5, 5, 6, 7, 8, 9, 10], 100));
    }
}

#[test]
fn seeded_noise_gets_answers() {
    for seed in 1..=400u64 {
        let mut noise = Noise(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let shape = noise.next() as u8;
        exercise(&script(&mut noise, shape, &[0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 11], 100));
    }
}

fn step(what: u8, a: u16, word: u64) -> Step {
    Step { what, a, word }
}

/// What each side does in its turn after the peer has struck.
fn all_calls() -> Vec<Step> {
    let calls = [4, 5, 6, 7, 8, 9].map(|what| step(what, 40, 50));
    let before = [step(10, 13, 50), step(10, 14, 30), step(10, 14, 1 << 16 | 40)];
    [calls.as_slice(), &before].concat()
}

fn struck_by(what: u8, a: u16, values: &[u64]) -> Vec<Step> {
    let rounds = values.iter().map(|value| {
        [vec![step(11, 0, 0), step(4, 60, 0), step(what, a, *value)], all_calls()].concat()
    });
    rounds.collect::<Vec<_>>().concat()
}

/// Values at the edges of a ring of `64 << 2` bytes.
const EDGES: [u64; 9] = [0, 1, 60, 255, 256, 257, 1 << 32, 1 << 63, u64::MAX];

fn seeds() -> Vec<(String, u8, Vec<Step>)> {
    let mut all: Vec<(String, u8, Vec<Step>)> = Vec::new();
    let peek = 1 << 32;
    let turns = |length| [step(4, length, 7), step(5, length, 7 | peek), step(5, length, 7)];
    all.push(("honest".into(), 2, (0..20).flat_map(|n| turns(n * 13)).collect()));
    all.push(("honest_small_rewinds".into(), 7, (0..99).flat_map(|_| turns(200)).collect()));
    let full = [step(4, 300, 0), step(10, 4, 0), step(9, 0, 0)];
    let drained = [step(6, 100, 0), step(6, 100, 0), step(10, 6, 0), step(5, 300, 0)];
    all.push(("full_then_drained".into(), 2, [full.as_slice(), &drained].concat()));
    let signals = (0..3 * SIGNALS).flat_map(|a| [step(10, a * 7, 1), step(9, 0, 0)]);
    all.push(("signals".into(), 10, signals.collect()));
    let files = [step(8, 100, 0), step(8, 500, 2), step(8, 9, 1), step(7, 0, 0), step(5, 500, 0)];
    all.push(("from_file".into(), 0, files.to_vec()));
    let names = ["tail", "origin", "head", "prefix", "taken", "held", "held_until"];
    for (place, name) in names.iter().enumerate() {
        all.push((format!("{name}_now"), 2, struck_by(0, place as u16, &EDGES)));
        for looks in [0, 1, 2, 3] {
            let a = place as u16 | looks << 8;
            all.push((format!("{name}_after_{looks}"), 10, struck_by(3, a, &EDGES)));
        }
    }
    let others = (0..OTHERS.len() as u16).flat_map(|a| struck_by(1, a, &[2, 1 << 31]));
    all.push(("other_words".into(), 2, others.collect()));
    all.push(("ring_bytes".into(), 18, struck_by(2, 20, &[0, 255])));
    all
}

#[test]
fn stored_seeds_are_small_and_name_every_word() {
    assert!(seeds().iter().all(|(_, _, steps)| steps.len() * 11 < 4096));
    assert_eq!(POSITIONS.len(), 7, "a new position needs seeds of its own");
}

/// Run by hand when the script or the lane changes:
/// `cargo test -p heliostat-ring --test lane_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_seeds() {
    std::fs::create_dir_all(folder()).expect("writable");
    for (name, shape, steps) in seeds() {
        let mut input = vec![shape];
        steps.into_iter().for_each(|step| input.extend(step.bytes()));
        std::fs::write(folder().join(name), input).expect("writable");
    }
}
