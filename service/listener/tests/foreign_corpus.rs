//! Replays the stored corpus of the fuzz target `load_page`, and seeded noise, without the fuzzer.

mod foreign;

use std::path::Path;

#[test]
fn every_stored_page_is_judged_by_what_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/listener/corpus/load_page");
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is stored") {
        foreign::exercise(&std::fs::read(entry.expect("listed").path()).expect("readable"));
        inputs += 1;
    }
    assert!(inputs >= 3, "{inputs} inputs");
}

#[test]
fn seeded_noise_is_judged_by_what_is_true() {
    for seed in 1..=300u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut input = Vec::new();
        for _ in 0..200 {
            let (kind, word) = (next(), next());
            // Small numbers are nearly true, and get further than noise does.
            let closed = if kind & 0x100 == 0 { word % 16 } else { word };
            input.push(kind as u8);
            input.extend_from_slice(&closed.to_le_bytes());
            input.extend_from_slice(&((kind >> 32) as u32).to_le_bytes());
        }
        assert_eq!(input.len() % foreign::STEP_BYTES, 0);
        foreign::exercise(&input);
    }
}
