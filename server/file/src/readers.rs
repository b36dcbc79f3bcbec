//! Who reads which file one behind the other, over all sessions and loops; over files, see `sets`.
//!
//! A large read goes to the device, since nobody comes back to its bytes (`way`). Somebody does where
//! another session reads the same version of the file behind this one: then the blocks are filled once,
//! for both. So each read of more than a block leaves a trace, and looks at those of others.
//!
//! ```text
//! file  |------F------------L---->       F follows L: L's next large read fills the cache,
//!              '-- span --'              and F's find it there
//! ```
//! What is wrong here costs a copy or a second read, and nothing else.

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;

/// Files of which traces are kept: beyond, the oldest are forgotten.
const FILES_MAX: usize = 1024;
/// Readers of one file that are known at a time.
const READERS_MAX: usize = 16;
/// A reader that has not read for so long follows nobody.
pub const LATELY_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Trace {
    reader: ObjectId,
    /// Behind the last byte that it has read.
    end: u64,
    at_ns: u64,
}

/// Traces of large reads.
#[derive(Debug, Default)]
pub struct Readers {
    files: HashMap<u64, Vec<Trace>>,
    /// How far behind somebody follows: what the cache keeps until it comes by.
    span: u64,
}

impl Readers {
    /// For a cache of so many bytes, of which one file's readers may count on a quarter.
    pub fn new(cache_bytes: u64) -> Readers {
        Readers { files: HashMap::new(), span: cache_bytes / 4 }
    }

    /// How far behind a reader follows.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Notes a large read of a version of a file; whether another session follows this one.
    pub fn note(
        &mut self,
        file: u64,
        reader: ObjectId,
        (offset, bytes): (u64, u64),
        now_ns: u64,
    ) -> bool {
        if !self.files.contains_key(&file) && self.files.len() >= FILES_MAX {
            self.forget_old(now_ns);
        }
        let span = self.span;
        let traces = self.files.entry(file).or_default();
        traces.retain(|trace| now_ns.saturating_sub(trace.at_ns) <= LATELY_NS);
        let is_behind = |trace: &&Trace| {
            trace.reader != reader && trace.end <= offset && offset - trace.end <= span
        };
        let is_followed = traces.iter().find(is_behind).is_some();
        traces.retain(|trace| trace.reader != reader);
        if traces.len() >= READERS_MAX {
            traces.remove(0);
        }
        traces.push(Trace { reader, end: offset.saturating_add(bytes), at_ns: now_ns });
        is_followed
    }

    /// Whether another session than this one reads a version now.
    pub fn is_read(&self, file: u64, except: ObjectId, now_ns: u64) -> bool {
        let reads = |trace: &Trace| {
            trace.reader != except && now_ns.saturating_sub(trace.at_ns) <= LATELY_NS
        };
        self.files.get(&file).is_some_and(|traces| traces.iter().any(reads))
    }

    fn forget_old(&mut self, now_ns: u64) {
        let is_late = |trace: &Trace| now_ns.saturating_sub(trace.at_ns) <= LATELY_NS;
        self.files.retain(|_, traces| traces.iter().any(is_late));
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn reader(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    fn readers() -> Readers {
        Readers::new(64 * MIB)
    }

    #[test]
    fn who_reads_alone_is_followed_by_nobody() {
        let mut readers = readers();
        assert!((0..100).all(|turn| !readers.note(1, reader(1), (turn * MIB, MIB), turn)));
    }

    #[test]
    fn a_reader_behind_makes_the_first_one_fill_the_cache_and_not_the_other_way() {
        let mut readers = readers();
        readers.note(1, reader(1), (8 * MIB, MIB), 0);
        assert!(!readers.note(1, reader(2), (0, MIB), 1), "the one behind follows");
        assert!(readers.note(1, reader(1), (9 * MIB, MIB), 2));
        assert!(!readers.note(2, reader(1), (9 * MIB, MIB), 2), "of another file nobody knows");
    }

    #[test]
    fn who_is_too_far_behind_or_has_stopped_does_not_count() {
        let mut readers = readers();
        readers.note(1, reader(2), (0, MIB), 0);
        assert!(!readers.note(1, reader(1), (18 * MIB, MIB), 1), "the cache would not keep it");
        assert!(readers.note(1, reader(1), (17 * MIB, MIB), 2));
        assert!(!readers.note(1, reader(1), (2 * MIB, MIB), LATELY_NS + 1));
    }

    #[test]
    fn who_reads_a_file_now_is_known_to_others() {
        let mut readers = readers();
        readers.note(1, reader(1), (0, MIB), 5);
        assert!(readers.is_read(1, reader(2), 6) && !readers.is_read(1, reader(1), 6));
        assert!(!readers.is_read(2, reader(2), 6) && !readers.is_read(1, reader(2), 6 + LATELY_NS));
    }

    #[test]
    fn traces_are_bounded() {
        let mut readers = readers();
        for file in 0..3 * FILES_MAX as u64 {
            readers.note(file, reader(1), (0, MIB), file);
        }
        for number in 0..100 {
            readers.note(1, reader(number), (0, MIB), 5000);
        }
        assert!(readers.files.len() <= FILES_MAX);
        assert!(readers.files.values().all(|traces| traces.len() <= READERS_MAX));
    }
}
