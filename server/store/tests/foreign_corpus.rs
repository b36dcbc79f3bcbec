//! Replays the stored corpus of the fuzz target `areas`, and changes of a byte of it, without the fuzzer;
//! writes the corpus.

mod foreign;

use std::path::{Path, PathBuf};

use foreign::support::{id, operation};
use heliostat_abi::file::delegated::{OpKind, Operation, OPERATION_BYTES_MAX};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/store/corpus/areas")
}

#[test]
fn every_stored_input_and_changes_of_it_reach_nothing_of_others() {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 5, "{} inputs", inputs.len());
    for input in inputs {
        foreign::exercise(&input);
        for at in (0..input.len()).step_by(17) {
            for value in [0, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                foreign::exercise(&changed);
            }
        }
    }
}

/// A record, with its length in front.
fn record(kind: OpKind, handle: u32, offset: u64, argument: u64, pieces: &[(u64, u32)]) -> Vec<u8> {
    let asked = Operation { argument, ..operation(kind, id(handle), offset, pieces) };
    let mut record = [0; OPERATION_BYTES_MAX];
    let length = asked.encode(&mut record);
    [&[length as u8], &record[..length]].concat()
}

#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_corpus() {
    let write = record(OpKind::Write, 1, 512, 0, &[(0, 512), (4096, 1024)]);
    let durable = record(OpKind::WriteDurable, 1, 8192, 0, &[(77, 2048)]);
    let read = record(OpKind::Read, 1, 0, 0, &[(65_536, 12_288)]);
    let other = record(OpKind::Read, 3, 0, 0, &[(0, 512)]);
    let flush = record(OpKind::Fsync, 1, 0, 0, &[]);
    let zero = record(OpKind::Zero, 1, 4096, 4096, &[]);
    let discard = record(OpKind::Discard, 1, 0, 12_288, &[]);
    let cancel = record(OpKind::Cancel, 0, 0, 7, &[]);
    let denied = record(OpKind::Write, 2, 0, 0, &[(0, 512)]);
    let sweep = vec![200];
    let inputs = [
        ("write_and_read", vec![&write, &sweep, &flush, &sweep, &read]),
        ("unaligned_memory", vec![&durable, &sweep, &sweep, &read]),
        ("zeroes", vec![&zero, &discard, &sweep, &read]),
        ("denied", vec![&denied, &other, &sweep]),
        ("cancelled", vec![&write, &durable, &cancel, &sweep]),
    ];
    std::fs::create_dir_all(folder()).unwrap();
    for (name, parts) in inputs {
        let bytes: Vec<u8> = parts.into_iter().flatten().copied().collect();
        std::fs::write(folder().join(name), bytes).unwrap();
    }
    let shrinks = [&write[..], &[242], &read, &[200, 230], &write, &[255], &read].concat();
    std::fs::write(folder().join("shrinks_and_closes"), shrinks).unwrap();
    std::fs::write(folder().join("too_short"), [5, 1, 2, 3, 4, 5, 200]).unwrap();
}
