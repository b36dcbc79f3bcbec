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
        (0..input.len()).step_by(997).for_each(|length| foreign::exercise(&input[..length]));
        // The fields of the first superblock and of the first table.
        for at in (0..73).chain(8193..8193 + 300).filter(|at| *at < input.len()) {
            for value in [0, 1, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                foreign::exercise(&changed);
            }
        }
    }
}

/// A device after `changes` of a story of changes, the last one cut in its middle if that is said.
fn device(changes: usize, is_cut: bool) -> Vec<u8> {
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
    // The data is not looked at, and the tables' ends are zeroes.
    device.truncate(8192 + 16384 + 512);
    device
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
        ("empty", 0, device(0, false)),
        ("two_areas", 0, device(2, false)),
        ("cut", 0, device(3, true)),
        ("to_be_zeroed", 0, device(5, false)),
        ("unrepaired", 0b1010, device(4, true)),
    ];
    std::fs::create_dir_all(folder()).expect("writable");
    for (name, keep, bytes) in all {
        let input: Vec<u8> = [keep].into_iter().chain(bytes).collect();
        std::fs::write(folder().join(name), input).expect("writable");
    }
}
