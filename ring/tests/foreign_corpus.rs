//! Replays the stored corpus of the fuzz target, and seeded noise, without the fuzzer.

mod foreign;

use std::path::Path;

#[test]
fn every_stored_input_gets_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/ring/corpus/ring_foreign");
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is stored") {
        foreign::exercise(&std::fs::read(entry.expect("listed").path()).expect("readable"));
        inputs += 1;
    }
    assert!(inputs >= 5, "{inputs} inputs");
}

#[test]
fn seeded_noise_gets_answers() {
    for seed in 1..=300u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut input = Vec::new();
        for _ in 0..64 {
            let (kind, value) = (next(), next());
            input.push(kind as u8);
            input.extend_from_slice(&((kind >> 8) as u16).to_le_bytes());
            // Small numbers and plausible headers get further than noise does.
            let word = match (kind >> 24) & 3 {
                0 => value,
                1 => (value % 8192) & !7,
                2 => (1 << 32) | (value % 3000),
                _ => (2 << 32) | ((value % 512) << 34) | (value % 3000),
            };
            input.extend_from_slice(&word.to_le_bytes());
        }
        foreign::exercise(&input);
    }
}
