//! A key-value store in one piece of memory: open addressing over records of one size.
//!
//! Everything lies in the piece, positions are indices, so an image of it is a store again.
//!
//! ```text
//! 0     records, sets (u64 each); rest of the page empty
//! 4096  buckets: u32 each, index of a record + 1, 0 for none; a power of two of them
//!       records: key (24 bytes), version (u64), value
//! ```

const PAGE: usize = 4096;
/// Bytes of a key: `user` and twenty digits, as YCSB has them.
pub const KEY: usize = 24;
/// Bytes of a record: key, version, and a value of some ten fields.
pub const RECORD: usize = 1024;
/// Bytes of a value.
pub const VALUE: usize = RECORD - KEY - 8;
const SETS: usize = 8;

/// Where things lie, for a number of records.
#[derive(Clone, Copy, Debug)]
struct Layout {
    buckets: usize,
    first: usize,
    records: usize,
}

impl Layout {
    fn of(records: usize) -> Self {
        let buckets = (records * 2).next_power_of_two();
        let first = (PAGE + buckets * 4).next_multiple_of(RECORD);
        Self { buckets, first, records }
    }
}

/// Bytes that a store of `records` needs.
pub fn bytes_for(records: usize) -> usize {
    let layout = Layout::of(records);
    layout.first + records * RECORD
}

/// A store over its memory.
pub struct Table<'a> {
    memory: &'a mut [u8],
    layout: Layout,
}

/// The key of number `at`.
pub fn key(at: u64) -> [u8; KEY] {
    let mut key = *b"user00000000000000000000";
    let mut rest = at;
    for digit in key.iter_mut().rev().take(20) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// What stands in `version` of a key: follows from both, so that a torn value shows.
pub fn value(at: u64, version: u64) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    let mut word = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version;
    for part in value.chunks_exact_mut(8) {
        word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        part.copy_from_slice(&word.to_le_bytes());
    }
    value
}

impl<'a> Table<'a> {
    /// An empty store in memory that is zero and large enough for `records`.
    pub fn new(memory: &'a mut [u8], records: usize) -> Self {
        memory[..8].copy_from_slice(&(records as u64).to_le_bytes());
        Self { memory, layout: Layout::of(records) }
    }

    /// The store of an image. `None` when it is none.
    pub fn load(memory: &'a mut [u8]) -> Option<Self> {
        let records = u64::from_le_bytes(memory.get(..8)?.try_into().ok()?) as usize;
        let fits = records < u32::MAX as usize && memory.len() >= bytes_for(records);
        fits.then(|| Self { layout: Layout::of(records), memory })
    }

    /// Sets done so far, first ones included.
    pub fn sets(&self) -> u64 {
        self.word(SETS)
    }

    /// The record of `key`, copied out: its version and value.
    pub fn get(&self, key: &[u8; KEY], into: &mut [u8; VALUE]) -> Option<u64> {
        let at = self.find(key).ok()?;
        into.copy_from_slice(&self.memory[at + KEY + 8..at + RECORD]);
        Some(self.word(at + KEY))
    }

    /// Sets the value of `key` in place, or puts it in as record `free` if it is new; the version
    /// goes up by one. `value` tells the value by the version.
    pub fn set(&mut self, key: &[u8; KEY], free: usize, value: impl FnOnce(u64) -> [u8; VALUE]) {
        let at = self.find(key).unwrap_or_else(|bucket| {
            let bucket = PAGE + bucket * 4;
            self.memory[bucket..bucket + 4].copy_from_slice(&(free as u32 + 1).to_le_bytes());
            let at = self.layout.first + free * RECORD;
            self.memory[at..at + KEY].copy_from_slice(key);
            at
        });
        let version = self.word(at + KEY) + 1;
        self.memory[at + KEY..at + KEY + 8].copy_from_slice(&version.to_le_bytes());
        self.memory[at + KEY + 8..at + RECORD].copy_from_slice(&value(version));
        let sets = self.sets() + 1;
        self.memory[SETS..SETS + 8].copy_from_slice(&sets.to_le_bytes());
    }

    /// True when the store is what it was at one moment: every key there, every value that of its
    /// version, and versions summing up to the sets.
    pub fn is_whole(&self) -> bool {
        let (mut versions, mut found) = (0, [0; VALUE]);
        for at in 0..self.layout.records as u64 {
            match self.get(&key(at), &mut found) {
                Some(version) if found == value(at, version) => versions += version,
                _ => return false,
            }
        }
        versions == self.sets()
    }

    /// Where the record of `key` lies, or the bucket where it would be noted.
    fn find(&self, key: &[u8; KEY]) -> Result<usize, usize> {
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut bucket = (hash ^ hash >> 32) as usize % self.layout.buckets;
        loop {
            let at = PAGE + bucket * 4;
            let note = u32::from_le_bytes([0, 1, 2, 3].map(|it| self.memory[at + it]));
            let Some(index) = note.checked_sub(1) else { return Err(bucket) };
            let record = self.layout.first + index as usize * RECORD;
            if self.memory[record..record + KEY] == *key {
                return Ok(record);
            }
            bucket = (bucket + 1) % self.layout.buckets;
        }
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|it| self.memory[at + it]))
    }
}

/// Fills a store with all its keys.
pub fn fill(table: &mut Table<'_>) {
    for at in 0..table.layout.records {
        table.set(&key(at as u64), at, |version| value(at as u64, version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_last_is_got_and_an_image_is_a_store_again() {
        let mut memory = vec![0; bytes_for(500)];
        let mut table = Table::new(&mut memory, 500);
        fill(&mut table);
        table.set(&key(77), 0, |version| value(77, version));
        assert_eq!(table.sets(), 501);
        assert!(table.is_whole());
        let mut image = memory.clone();
        let again = Table::load(&mut image).unwrap();
        let mut found = [0; VALUE];
        assert_eq!(again.get(&key(77), &mut found), Some(2));
        assert_eq!(found, value(77, 2));
        assert_eq!(again.get(&key(500), &mut found), None);
    }

    #[test]
    fn a_torn_image_is_not_whole() {
        let mut memory = vec![0; bytes_for(500)];
        fill(&mut Table::new(&mut memory, 500));
        let old = memory.clone();
        let mut table = Table::new(&mut memory, 500);
        (0..50).for_each(|at| table.set(&key(at), 0, |version| value(at, version)));
        let half = memory.len() / 2;
        memory[half..].copy_from_slice(&old[half..]);
        let records = Table::load(&mut memory).unwrap();
        assert!(records.is_whole(), "the first fifty lie in the first half");
        memory[..PAGE].copy_from_slice(&old[..PAGE]);
        assert!(!Table::load(&mut memory).unwrap().is_whole());
    }
}
