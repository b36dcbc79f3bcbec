//! What is written is read back; what was cut or changed is refused.

use heliostat_snapfile::*;
use proptest::prelude::*;

const LENGTH: usize = 2 * CHUNK_BYTES + 3 * PAGE_BYTES + 100;

fn header(length: usize, base: Option<&SnapFile<Vec<u8>>>) -> Header {
    let of = |file: &SnapFile<Vec<u8>>| Base { identity: file.identity(), name: b"b".to_vec() };
    Header {
        name: "model/a".into(),
        length: length as u64,
        generation: 3,
        number: 9,
        published_unix_ns: 1,
        published_ns: 2,
        description: b"{}".to_vec(),
        depth: base.map_or(0, |file| file.header().depth + 1),
        base: base.map(of),
    }
}

fn write(
    bytes: &[u8],
    base: Option<&SnapFile<Vec<u8>>>,
    level: Option<i32>,
) -> Result<Vec<u8>, FileError> {
    let mut writer = Writer::new(Vec::new(), header(bytes.len(), base))?;
    let mut packer = Packer::new(level)?;
    for (chunk, part) in bytes.chunks(CHUNK_BYTES).enumerate() {
        let packed = packer.pack(chunk as u32, part, base.map(SnapFile::index))?;
        writer.put(&packed)?;
    }
    let (file, written) = writer.finish()?;
    assert_eq!(written.file_bytes, file.len() as u64);
    Ok(file)
}

/// The version in the last of `files`, the first of which is whole.
fn read(files: &[Vec<u8>]) -> Result<Vec<u8>, FileError> {
    let open = |at: usize| SnapFile::open(files[at].clone());
    let mut at = files.len() - 1;
    let mut chain = Chain::resolve(open(at)?, |_| {
        at = at.checked_sub(1).ok_or(FileError::NoBase)?;
        open(at)
    })?;
    let length = chain.top().header().length;
    let mut bytes = vec![0xaa; length as usize];
    for (chunk, part) in bytes.chunks_mut(CHUNK_BYTES).enumerate() {
        chain.read(chunk as u32, part)?;
    }
    Ok(bytes)
}

/// Bytes with zero pages between others, the last one short.
fn bytes() -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    for page in [0, 1, 5, 300, 511, 512, 1025] {
        let at = page * PAGE_BYTES;
        bytes[at + 7..at + 2000].iter_mut().enumerate().for_each(|(i, b)| *b = (i * page) as u8);
        bytes[at + 6] = 1;
    }
    bytes[LENGTH - 1] = 9;
    bytes
}

/// Small enough to try every byte, with all parts of the format: two chunks, an unchanged page.
fn small() -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut bytes = vec![0; CHUNK_BYTES + 50];
    bytes[..300].fill(7);
    bytes[PAGE_BYTES..PAGE_BYTES + 64].fill(8);
    bytes[CHUNK_BYTES + 49] = 1;
    let base = write(&bytes, None, Some(3)).unwrap();
    bytes[3] = 9;
    bytes[CHUNK_BYTES] = 2;
    let file = SnapFile::open(base.clone()).unwrap();
    let above = write(&bytes, Some(&file), Some(3)).unwrap();
    (vec![base, above], bytes)
}

#[test]
fn a_version_comes_back_with_its_header() {
    for level in [None, Some(1), Some(19)] {
        let file = write(&bytes(), None, level).unwrap();
        assert_eq!(SnapFile::open(file.clone()).unwrap().header(), &header(LENGTH, None));
        assert!(read(&[file]).unwrap() == bytes());
    }
}

#[test]
fn zeros_take_no_room() {
    let empty = write(&vec![0; LENGTH], None, None).unwrap();
    assert!(empty.len() < 200, "{}", empty.len());
    assert!(read(&[empty]).unwrap() == vec![0; LENGTH]);
    let some = write(&bytes(), None, None).unwrap();
    assert!(some.len() < 9 * PAGE_BYTES, "{}", some.len());
}

#[test]
fn an_unchanged_version_takes_its_index_only() {
    let base = write(&bytes(), None, Some(3)).unwrap();
    let below = SnapFile::open(base.clone()).unwrap();
    let above = write(&bytes(), Some(&below), Some(3)).unwrap();
    assert!(above.len() < 1000, "{}", above.len());
    assert!(read(&[base, above]).unwrap() == bytes());
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    let (files, bytes) = small();
    assert!(read(&files).unwrap() == bytes);
    for file in &files {
        for length in 0..file.len() {
            let error = SnapFile::open(file[..length].to_vec()).unwrap_err();
            let is_clear = matches!(error, FileError::Truncated)
                || (length == 0 && matches!(error, FileError::Foreign));
            assert!(is_clear, "{length} bytes: {error}");
        }
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let (files, _) = small();
    for which in 0..files.len() {
        for bit in 0..files[which].len() * 8 {
            let mut changed = files.clone();
            changed[which][bit / 8] ^= 1 << (bit % 8);
            // Pages of the base that the newer file has anew are not looked at.
            let of_base = which == 0 && read(&changed[..1]).is_err();
            assert!(read(&changed).is_err() || of_base, "file {which}, bit {bit}");
        }
    }
}

#[test]
fn what_follows_the_end_is_refused() {
    let (mut files, _) = small();
    files[0].push(0);
    assert!(matches!(read(&files[..1]), Err(FileError::Truncated)));
}

#[test]
fn a_base_that_is_another_file_or_missing_is_refused() {
    let (files, bytes) = small();
    let other = write(&bytes, None, Some(3)).unwrap();
    let wrong = read(&[other, files[1].clone()]);
    assert!(matches!(wrong, Err(FileError::WrongBase { .. })), "{wrong:?}");
    assert!(matches!(read(&files[1..]), Err(FileError::NoBase)));
}

#[test]
fn a_chain_has_a_limit() {
    let mut files = vec![write(&[1; 10], None, None).unwrap()];
    for depth in 1..=DEPTH_MAX {
        let below = SnapFile::open(files[depth as usize - 1].clone()).unwrap();
        files.push(write(&[depth as u8; 10], Some(&below), None).unwrap());
    }
    assert_eq!(read(&files).unwrap(), [DEPTH_MAX as u8; 10]);
    let below = SnapFile::open(files[DEPTH_MAX as usize].clone()).unwrap();
    let more = write(&[0; 10], Some(&below), None);
    assert!(matches!(more, Err(FileError::Limit { .. })), "{more:?}");
}

#[test]
fn chunks_out_of_order_or_of_a_wrong_length_are_refused() {
    let mut writer = Writer::new(Vec::new(), header(LENGTH, None)).unwrap();
    let mut packer = Packer::new(None).unwrap();
    writer.put(&packer.pack(1, &[1; CHUNK_BYTES], None).unwrap()).unwrap();
    for (chunk, length) in [(0, CHUNK_BYTES), (1, CHUNK_BYTES), (2, 5), (3, 5)] {
        let packed = packer.pack(chunk, &vec![1; length], None).unwrap();
        assert!(matches!(writer.put(&packed), Err(FileError::Order { .. })), "{chunk}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A dirty set that moves: each version is written on the one before; every chain gives the
    /// bytes of its version.
    #[test]
    fn chains_give_what_was_written(
        steps in prop::collection::vec(
            prop::collection::vec((0..1100usize, any::<bool>(), 1..PAGE_BYTES), 0..12), 1..6),
    ) {
        let (mut model, mut files, mut versions) = (vec![0; LENGTH], Vec::new(), Vec::new());
        for (step, writes) in steps.iter().enumerate() {
            for (page, is_zero, length) in writes {
                let at = page * PAGE_BYTES % LENGTH;
                let end = (at + length).min(LENGTH);
                model[at..end].fill(if *is_zero { 0 } else { step as u8 + 1 });
            }
            let below = files.last().map(|file: &Vec<u8>| SnapFile::open(file.clone()).unwrap());
            files.push(write(&model, below.as_ref(), Some(1)).unwrap());
            versions.push(model.clone());
        }
        for (at, version) in versions.iter().enumerate() {
            prop_assert!(read(&files[..=at]).unwrap() == *version, "version {at}");
        }
    }
}
