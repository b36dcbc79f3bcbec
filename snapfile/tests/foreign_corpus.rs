//! Replays the stored corpus of the fuzz target `file`, and every change of a byte of it, without
//! the fuzzer; writes the corpus.

mod foreign;

use std::path::{Path, PathBuf};

use heliostat_snapfile::{Base, Header, Identity, Packer, SnapFile, Writer};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/snapfile/corpus/file")
}

#[test]
fn every_stored_file_and_every_change_of_a_byte_is_read_or_refused() {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 6, "{} inputs", inputs.len());
    for input in inputs {
        foreign::exercise(&input);
        (0..input.len()).step_by(3).for_each(|length| foreign::exercise(&input[..length]));
        for at in 0..input.len() {
            for value in [0, 1, 0x10, 0x7f, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                foreign::exercise(&changed);
            }
        }
    }
}

fn file(length: usize, level: Option<i32>, base: Option<&SnapFile<Vec<u8>>>) -> Vec<u8> {
    let of = |file: &SnapFile<Vec<u8>>| Base { identity: file.identity(), name: b"b".to_vec() };
    let header = Header {
        name: "a".into(),
        length: length as u64,
        description: b"d".to_vec(),
        depth: base.map_or(0, |file| file.header().depth + 1),
        base: base.map(of),
        ..Header::default()
    };
    let mut bytes = vec![0; length];
    bytes[length / 2] = 1;
    bytes[length - 1] = base.is_some().into();
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    let mut packer = Packer::new(level).unwrap();
    for (chunk, part) in bytes.chunks(heliostat_snapfile::CHUNK_BYTES).enumerate() {
        let packed = packer.pack(chunk as u32, part, base.map(SnapFile::index)).unwrap();
        writer.put(&packed).unwrap();
    }
    writer.finish().unwrap().0
}

/// Run by hand when the format changes:
/// `cargo test -p heliostat-snapfile --test foreign_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when the format changes"]
fn write_seeds() {
    let whole = SnapFile::open(file(9000, Some(3), None)).unwrap();
    let own = Header {
        length: 9000,
        depth: 1,
        base: Some(Base { identity: Identity([0; 32]), name: Vec::new() }),
        ..Header::default()
    };
    let own = Writer::new(Vec::new(), own).unwrap().finish().unwrap().0;
    let all = [
        ("whole", file(9000, Some(3), None)),
        ("raw", file(50, None, None)),
        ("two_chunks", file(heliostat_snapfile::CHUNK_BYTES + 10, Some(1), None)),
        ("above", file(9000, Some(3), Some(&whole))),
        ("above_a_stranger", own),
        ("no_record", {
            let header = Header { length: 1 << 40, ..Header::default() };
            Writer::new(Vec::new(), header).unwrap().finish().unwrap().0
        }),
    ];
    std::fs::create_dir_all(folder()).expect("writable");
    all.iter().for_each(|(name, bytes)| std::fs::write(folder().join(name), bytes).unwrap());
}
