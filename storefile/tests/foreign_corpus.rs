//! Replays the stored corpus of the fuzz target `store`, and changes of a byte of it, without the
//! fuzzer; writes the corpus.

mod foreign;

use std::path::{Path, PathBuf};

use heliostat_storefile::{Create, Format, Identity, Kind, Name, Opened, Step, Store};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/storefile/corpus/store")
}

#[test]
fn every_stored_store_and_every_change_of_a_byte_is_opened_or_refused() {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 4, "{} inputs", inputs.len());
    for input in inputs {
        foreign::exercise(&input);
        (0..input.len()).step_by(5).for_each(|length| foreign::exercise(&input[..length]));
        for at in 0..input.len() {
            for value in [0, 1, 0x10, 0x7f, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                foreign::exercise(&changed);
            }
        }
    }
}

/// The input for a device after `changes` of a story of changes, the last one cut in its middle if that is said.
fn input(keep: u8, changes: usize, is_cut: bool) -> Vec<u8> {
    let format = Format {
        identity: Identity(*b"a store to fuzz!"),
        device_bytes: foreign::DEVICE_BYTES as u64,
        grain_bytes: 4096,
        areas_max: 2,
        is_zero: true,
    };
    let mut device = vec![0; foreign::DEVICE_BYTES];
    let Opened { mut store, steps } = Store::format_over(&format).unwrap();
    perform(&mut device, &steps);
    let create = |name: &str, grains: u64, kind| {
        let name = Name::new(name).unwrap();
        Create { name, bytes: grains * 4096, owner: 1000, rights: 3, kind }
    };
    for number in 0..changes {
        let change = match number {
            0 => store.create(&create("log", 3, Kind::Log)),
            1 => store.create(&create("a/queue", 2, Kind::Queue)),
            2 => store.resize(1, 5 * 4096),
            3 => store.resize(1, 4096),
            _ => store.delete(2),
        };
        let change = change.unwrap();
        let steps = if is_cut && number + 1 == changes { 1 } else { change.steps.len() };
        perform(&mut device, &change.steps[..steps]);
        store.apply(change).unwrap();
    }
    let table = |at: usize| {
        let payload = &device[at + 32..at + 36];
        let payload = u32::from_le_bytes(payload.try_into().unwrap()) as usize;
        &device[at..at + 96 + payload]
    };
    let first = table(foreign::TABLES_AT);
    let second = table(foreign::TABLES_AT + foreign::TABLE_BYTES);
    let superblocks = [0, 4096].map(|at| &device[at..at + foreign::FIELDS_BYTES]);
    let length = (first.len() as u16).to_le_bytes();
    [&[keep], superblocks[0], superblocks[1], &length[..], first, second].concat()
}

fn perform(device: &mut [u8], steps: &[Step]) {
    for step in steps {
        match step {
            Step::Write { offset, bytes } => {
                device[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Step::Zero { offset, bytes } => device[*offset as usize..][..*bytes as usize].fill(0),
            Step::Flush => {}
        }
    }
}

/// Run by hand when the format changes:
/// `cargo test -p heliostat-storefile --test foreign_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when the format changes"]
fn write_seeds() {
    let all = [
        ("empty", input(0, 0, false)),
        ("two_areas", input(0, 2, false)),
        ("cut", input(0, 3, true)),
        ("to_be_zeroed", input(0, 5, false)),
        ("unrepaired", input(0b1010, 4, true)),
    ];
    std::fs::create_dir_all(folder()).expect("writable");
    all.iter().for_each(|(name, bytes)| std::fs::write(folder().join(name), bytes).unwrap());
}
