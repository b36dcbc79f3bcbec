//! `heliostat snapshot export`: a saved version becomes plain bytes again, or a NumPy array.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use heliostat_snapfile::{chunk_bytes, chunks, Chain, FileError, CHUNK_BYTES, PAGE_BYTES};

use super::error::SnapshotError;
use super::pending::Pending;
use super::{files, npy, progress};
use crate::args::snapshot::ExportArguments;

const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Exports.
pub fn export(asked: &ExportArguments) -> Result<(), SnapshotError> {
    let mut chain = files::open_chain(&asked.file)?;
    let header = chain.top().header();
    let head = match &asked.output {
        Some(output) if output.extension().is_some_and(|it| it == "npy") => {
            let array = npy::header(&header.description, header.length);
            array.map_err(|why| SnapshotError::NoArray { why })?
        }
        _ => Vec::new(),
    };
    let output = asked.output.clone().unwrap_or_else(|| asked.file.with_extension("bin"));
    if output == Path::new("-") {
        return to_stdout(&mut chain, &asked.file);
    }
    to_file(&mut chain, &head, &asked.file, &output)
}

fn to_stdout(chain: &mut Chain<File>, from: &Path) -> Result<(), SnapshotError> {
    let mut stdout = std::io::stdout().lock();
    each_chunk(chain, from, |_, bytes| {
        stdout.write_all(bytes).map_err(SnapshotError::of_output(Path::new("-")))
    })
}

fn to_file(
    chain: &mut Chain<File>,
    head: &[u8],
    from: &Path,
    to: &Path,
) -> Result<(), SnapshotError> {
    let length = chain.top().header().length;
    let pending = Pending::create(to).map_err(SnapshotError::of_output(to))?;
    let written = || SnapshotError::of_output::<std::io::Error>(to);
    let file = pending.file();
    file.set_len(head.len() as u64 + length).map_err(written())?;
    file.write_all_at(head, 0).map_err(written())?;
    each_chunk(chain, from, |chunk, bytes| {
        if pending.is_interrupted() {
            return Err(SnapshotError::Interrupted);
        }
        let at = head.len() as u64 + u64::from(chunk) * CHUNK_BYTES as u64;
        // Zeros are holes: the file has its length already.
        let is_zero = |page: &[u8]| page == &ZEROS[..page.len()];
        for run in runs(bytes, is_zero) {
            file.write_all_at(&bytes[run.clone()], at + run.start as u64).map_err(written())?;
        }
        Ok(())
    })?;
    pending.commit().map_err(SnapshotError::of_output(to))
}

/// The longest runs of pages that are not left out.
fn runs(bytes: &[u8], is_left_out: impl Fn(&[u8]) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (page, part) in bytes.chunks(PAGE_BYTES).enumerate() {
        let start = page * PAGE_BYTES;
        match runs.last_mut() {
            _ if is_left_out(part) => {}
            Some(last) if last.end == start => last.end += part.len(),
            _ => runs.push(start..start + part.len()),
        }
    }
    runs
}

/// Reads every chunk of a chain, checked, in order.
pub fn each_chunk(
    chain: &mut Chain<File>,
    from: &Path,
    mut take: impl FnMut(u32, &[u8]) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let length = chain.top().header().length;
    let bar = progress::bar("reading", length);
    let mut bytes = vec![0; CHUNK_BYTES];
    for chunk in 0..chunks(length) {
        let part = &mut bytes[..chunk_bytes(length, chunk)];
        let read: Result<(), FileError> = chain.read(chunk, part);
        read.map_err(SnapshotError::of_file(from))?;
        take(chunk, part)?;
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_pages_leave_zeros_out() {
        let mut bytes = vec![0; 5 * PAGE_BYTES + 9];
        [PAGE_BYTES, 3 * PAGE_BYTES - 1, 5 * PAGE_BYTES + 8].iter().for_each(|at| bytes[*at] = 1);
        let found = runs(&bytes, |page| page == &ZEROS[..page.len()]);
        assert_eq!(found, [PAGE_BYTES..3 * PAGE_BYTES, 5 * PAGE_BYTES..bytes.len()]);
    }
}
