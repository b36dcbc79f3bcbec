//! Any bytes are a file that can be read, or an error; shared with the fuzz target `file`.

use heliostat_snapfile::{chunk_bytes, chunks, Chain, SnapFile};

const TRAILER: usize = 56;

/// Reads `input` as a file, as it is and with the identity that its header and index have: so the
/// fuzzer gets behind the one check that it cannot guess.
pub fn exercise(input: &[u8]) {
    read(input.to_vec());
    read(sealed(input.to_vec()));
}

fn read(input: Vec<u8>) {
    let Ok(file) = SnapFile::open(input.clone()) else { return };
    let (length, is_whole) = (file.header().length, file.header().base.is_none());
    let touched: Vec<u32> = file.index().records().iter().map(|record| record.chunk).collect();
    // A file that names itself as its base must end, too.
    let Ok(mut chain) = Chain::resolve(file, |_| SnapFile::open(input.clone())) else { return };
    assert!(is_whole, "a file was its own base");
    for chunk in touched.into_iter().chain([0, chunks(length) - 1, chunks(length)]) {
        let mut bytes = vec![0; chunk_bytes(length, chunk)];
        let _ = chain.read(chunk, &mut bytes);
    }
}

/// The same bytes with the identity that they should have.
pub fn sealed(mut input: Vec<u8>) -> Vec<u8> {
    let word = |at: usize| {
        let bytes = input.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let Some(end) = input.len().checked_sub(TRAILER) else { return input };
    let header = word(8).map(|word| word >> 32).and_then(|bytes| input.get(..bytes));
    let index = word(end).and_then(|at| input.get(at..end));
    if let (Some(header), Some(index)) = (header, index) {
        let identity = *blake3::Hasher::new().update(header).update(index).finalize().as_bytes();
        input[end + 16..end + 48].copy_from_slice(&identity);
    }
    input
}
