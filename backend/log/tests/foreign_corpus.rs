//! Replays the stored corpus of the fuzz target `area`, and changes of its bytes, without the
//! fuzzer; writes the corpus.

mod foreign;

use std::path::{Path, PathBuf};

use heliostat_backend_log::format::{entry_bytes, Position};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/log/corpus/area")
}

#[test]
fn every_stored_area_and_changes_of_its_bytes_are_opened_or_refused() {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 6, "{} inputs", inputs.len());
    for input in inputs {
        foreign::exercise(&input);
        (0..input.len()).step_by(41).for_each(|length| foreign::exercise(&input[..length]));
        for at in 0..input.len().min(200) {
            for value in [0, 1, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                foreign::exercise(&changed);
            }
        }
    }
}

fn numbers(numbers: [u16; 4]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Entries behind the end of the header with these numbers, `generation` of each as given.
fn entries(of: [u16; 4], generations: &[u32], unsettled: u32) -> Vec<u8> {
    let mut place: Position = foreign::header(of).end;
    let mut bytes = numbers(of);
    for (count, generation) in generations.iter().enumerate() {
        let payload = vec![count as u8; 13 * count];
        bytes.extend(foreign::entry(&payload, place, *generation, unsettled));
        place.at += entry_bytes(payload.len() as u64);
        place.sequence += 1;
    }
    bytes
}

/// Writes the corpus anew: `cargo test -p heliostat-backend-log --test foreign_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when the format changes"]
fn write_the_corpus() {
    let of = [100, 50, 3, 8];
    let mut torn = entries(of, &[3; 5], 0);
    torn[60] ^= 1;
    let mut proof = entries(of, &[3; 6], 0);
    proof[20] ^= 1;
    let all = [
        ("empty", numbers([0; 4])),
        ("header", foreign::header(of).encode().to_vec()),
        ("entries", entries(of, &[3; 8], 0)),
        ("around_the_end", entries([0, 480, 1, 1], &[1; 8], 100)),
        ("torn", torn),
        ("proof_of_damage", proof),
        ("unsettled", entries(of, &[3; 8], 4000)),
        ("earlier_opening", entries(of, &[3, 3, 2, 2], 0)),
        ("unknown_opening", entries(of, &[3, 3, 4, 4], 0)),
        ("last_opening", numbers([0, 0, u16::MAX, 2])),
    ];
    std::fs::create_dir_all(folder()).expect("writable");
    all.iter().for_each(|(name, bytes)| std::fs::write(folder().join(name), bytes).unwrap());
}
