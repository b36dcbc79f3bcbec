//! `heliostat snapshot diff`: where two versions differ, be they saved or live.

use std::fs::File;
use std::path::{Path, PathBuf};

use heliostat_snapfile::{chunk_bytes, chunks, Chain, CHUNK_BYTES, PAGE_BYTES};
use heliostat_stub_snapshot::Version;
use serde_json::json;

use super::error::SnapshotError;
use super::live::attached;
use super::{files, progress};
use crate::args::snapshot::DiffArguments;
use crate::show::print;
use crate::table::bytes;

/// Ranges with at most so many equal bytes between them are told as one: the two halves of a
/// number whose middle happens to agree are one change.
const JOIN_BYTES: u64 = 8;
/// Most ranges told.
const RANGES_MAX: usize = 1 << 20;

/// One of the two.
enum Side {
    Saved(Box<Chain<File>>, PathBuf),
    Live(Version),
}

impl Side {
    /// A file if there is one of that name, else a region, perhaps with a version's number.
    fn open(text: &str, asked: &DiffArguments) -> Result<Self, SnapshotError> {
        let path = Path::new(text);
        if path.exists() || text.ends_with(".hsnap") {
            let chain = files::open_chain(path)?;
            return Ok(Self::Saved(Box::new(chain), path.to_owned()));
        }
        let numbered = text.rsplit_once('@').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        let name = numbered.map_or(text, |(name, _): (_, u64)| name);
        let region = attached(&asked.format.place, name, asked.owner)?;
        let version = match numbered {
            Some((_, number)) => region.numbered(number),
            None => region.latest(),
        };
        let (name, alive) = (name.to_owned(), region.alive());
        version.map(Self::Live).map_err(|error| SnapshotError::Version { name, alive, error })
    }

    fn length(&self) -> u64 {
        match self {
            Self::Saved(chain, _) => chain.top().header().length,
            Self::Live(version) => version.len() as u64,
        }
    }

    /// Reads the first bytes of a chunk, as many as there is room for.
    fn read(&mut self, chunk: u32, into: &mut Vec<u8>) -> Result<(), SnapshotError> {
        into.resize(chunk_bytes(self.length(), chunk), 0);
        match self {
            Self::Saved(chain, path) => {
                chain.read(chunk, into).map_err(SnapshotError::of_file(path))
            }
            Self::Live(version) => {
                // The chunk is inside the region by its length.
                let _ = version.read(chunk as usize * CHUNK_BYTES, into);
                Ok(())
            }
        }
    }

    /// Whether both files say that the chunk is the same; no byte is read for that.
    fn is_known_same(&self, other: &Self, chunk: u32) -> bool {
        let (Self::Saved(a, _), Self::Saved(b, _)) = (self, other) else { return false };
        match (a.top().index().find(chunk), b.top().index().find(chunk)) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_same(b),
            _ => false,
        }
    }
}

/// What differs.
#[derive(Default)]
struct Differences {
    pages: u64,
    bytes: u64,
    ranges: Vec<(u64, u64)>,
    left_out: u64,
}

impl Differences {
    fn compare(&mut self, offset: u64, a: &[u8], b: &[u8]) {
        let pages = a.chunks(PAGE_BYTES).zip(b.chunks(PAGE_BYTES));
        for (page, (a, b)) in pages.enumerate().filter(|(_, (a, b))| a != b) {
            self.pages += 1;
            let start = offset + (page * PAGE_BYTES) as u64;
            for at in (0..a.len().min(b.len())).filter(|at| a[*at] != b[*at]) {
                self.bytes += 1;
                self.add(start + at as u64, 1);
            }
        }
    }

    fn add(&mut self, start: u64, length: u64) {
        let has_room = self.ranges.len() < RANGES_MAX;
        match self.ranges.last_mut() {
            Some((from, bytes)) if start <= *from + *bytes + JOIN_BYTES => {
                *bytes = start + length - *from;
            }
            _ if has_room => self.ranges.push((start, length)),
            _ => self.left_out += 1,
        }
    }
}

/// Compares; true when both are the same.
pub fn diff(asked: &DiffArguments) -> Result<bool, SnapshotError> {
    let mut sides = [Side::open(&asked.a, asked)?, Side::open(&asked.b, asked)?];
    let lengths = [sides[0].length(), sides[1].length()];
    let common = lengths[0].min(lengths[1]);
    let (mut found, bar) = (Differences::default(), progress::bar("comparing", common));
    let [mut a, mut b] = [Vec::new(), Vec::new()];
    for chunk in 0..chunks(common) {
        let bytes = chunk_bytes(common, chunk);
        bar.inc(bytes as u64);
        if lengths[0] == lengths[1] && sides[0].is_known_same(&sides[1], chunk) {
            continue;
        }
        sides[0].read(chunk, &mut a)?;
        sides[1].read(chunk, &mut b)?;
        let offset = u64::from(chunk) * CHUNK_BYTES as u64;
        found.compare(offset, &a[..bytes], &b[..bytes]);
    }
    bar.finish_and_clear();
    let longer = lengths[0].max(lengths[1]);
    if longer > common {
        found.pages += (longer - common).div_ceil(PAGE_BYTES as u64);
        found.bytes += longer - common;
        found.add(common, longer - common);
    }
    tell(asked, &found, lengths)?;
    Ok(found.bytes == 0)
}

fn tell(
    asked: &DiffArguments,
    found: &Differences,
    lengths: [u64; 2],
) -> Result<(), SnapshotError> {
    if asked.format.json {
        let mut said = json!({
            "same": found.bytes == 0, "pages": found.pages, "bytes": found.bytes,
            "lengths": lengths, "page_bytes": PAGE_BYTES,
        });
        if asked.ranges {
            said["ranges"] = json!(found.ranges);
            said["ranges_left_out"] = json!(found.left_out);
        }
        return Ok(print(&format!("{said}\n"))?);
    }
    let mut text = String::new();
    if asked.ranges {
        let lines = found.ranges.iter().map(|(offset, length)| format!("{offset}+{length}\n"));
        text.extend(lines);
    }
    if found.left_out > 0 {
        text.push_str(&format!("and {} ranges more\n", found.left_out));
    }
    if lengths[0] != lengths[1] {
        text.push_str(&format!("lengths: {} and {} bytes\n", lengths[0], lengths[1]));
    }
    if found.bytes > 0 {
        let (pages, all) = (found.pages, lengths[0].max(lengths[1]).div_ceil(PAGE_BYTES as u64));
        text.push_str(&format!("{pages} of {all} pages differ, {}\n", bytes(found.bytes)));
    }
    Ok(print(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_by_byte_and_told_in_joined_ranges() {
        let mut found = Differences::default();
        let (a, mut b) = (vec![0; 3 * PAGE_BYTES], vec![0; 3 * PAGE_BYTES]);
        for at in [5, 7, 20, 2 * PAGE_BYTES] {
            b[at] = 1;
        }
        found.compare(100, &a, &b);
        let wanted = [(105, 3), (120, 1), (100 + 2 * PAGE_BYTES as u64, 1)];
        assert_eq!((found.pages, found.bytes, &found.ranges[..]), (2, 4, &wanted[..]));
    }
}
