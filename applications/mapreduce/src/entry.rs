//! Keys with their counts: their order, their bytes in a run, and many runs made one.
//!
//! A run is a sequence of entries in order of their keys, each `bytes u32, count u64, key`. It comes from
//! another process, so it is checked while it is read.

use std::cmp::Ordering;

/// Bytes of a key that are compared as one number.
const PREFIX_BYTES: usize = 16;
/// Bytes in front of a key in a run.
const HEAD_BYTES: usize = 12;

/// A key and how often it was there.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The first bytes, the first of them the greatest; zeros behind a shorter key.
    prefix: u128,
    rest: &'a [u8],
    bytes: u32,
    /// How often.
    pub count: u64,
}

/// A run that no worker writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedRun;

impl<'a> Entry<'a> {
    /// A key and its count. No split is so long that its keys had 4 GiB.
    pub fn new(key: &'a [u8], count: u64) -> Entry<'a> {
        let mut first = [0; PREFIX_BYTES];
        let short = key.len().min(PREFIX_BYTES);
        first[..short].copy_from_slice(&key[..short]);
        let (prefix, rest) = (u128::from_be_bytes(first), &key[short..]);
        Entry { prefix, rest, bytes: key.len() as u32, count }
    }

    /// A key of at most 16 bytes, none of them zero, as a number whose lowest byte is the first.
    pub fn short(key: u128, count: u64) -> Entry<'a> {
        let bytes = PREFIX_BYTES as u32 - key.leading_zeros() / 8;
        Entry { prefix: key.swap_bytes(), rest: &[], bytes, count }
    }

    /// Appends the key.
    pub fn push_key(&self, into: &mut Vec<u8>) {
        let short = (self.bytes as usize).min(PREFIX_BYTES);
        into.extend_from_slice(&self.prefix.to_be_bytes()[..short]);
        into.extend_from_slice(self.rest);
    }

    /// Compares keys byte by byte.
    pub fn compare(&self, other: &Entry) -> Ordering {
        // Keys that end with zeros are told from shorter ones by their length alone.
        let order = self.prefix.cmp(&other.prefix).then_with(|| self.rest.cmp(other.rest));
        order.then(self.bytes.cmp(&other.bytes))
    }

    fn push(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.bytes.to_le_bytes());
        into.extend_from_slice(&self.count.to_le_bytes());
        self.push_key(into);
    }
}

/// Sorts entries and joins those of one key. What consists of sorted runs is merged, not sorted anew.
pub fn merge(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(Entry::compare);
    entries.dedup_by(|next, kept| {
        let is_same = next.compare(kept) == Ordering::Equal;
        kept.count += if is_same { next.count } else { 0 };
        is_same
    });
    entries
}

/// The entries of each partition, one after the other, and where each of them ends. Partition `n` has the
/// keys from `splitters[n - 1]` on and before `splitters[n]`.
pub fn encode(entries: &[Entry], splitters: &[Vec<u8>]) -> (Vec<u64>, Vec<u8>) {
    let mut bytes = Vec::with_capacity(entries.len() * 24);
    let (mut ends, mut from) = (Vec::new(), 0);
    for splitter in splitters {
        let border = Entry::new(splitter, 0);
        let to = from + entries[from..].partition_point(|it| it.compare(&border).is_lt());
        entries[from..to].iter().for_each(|entry| entry.push(&mut bytes));
        ends.push(bytes.len() as u64);
        from = to;
    }
    entries[from..].iter().for_each(|entry| entry.push(&mut bytes));
    ends.push(bytes.len() as u64);
    (ends, bytes)
}

/// Appends the entries of a run.
///
/// # Errors
/// An entry goes beyond the run.
pub fn decode<'a>(mut run: &'a [u8], into: &mut Vec<Entry<'a>>) -> Result<(), MalformedRun> {
    while !run.is_empty() {
        let (head, rest) = run.split_at_checked(HEAD_BYTES).ok_or(MalformedRun)?;
        let bytes = u32::from_le_bytes(head[..4].try_into().map_err(|_| MalformedRun)?);
        let count = u64::from_le_bytes(head[4..].try_into().map_err(|_| MalformedRun)?);
        let (key, rest) = rest.split_at_checked(bytes as usize).ok_or(MalformedRun)?;
        into.push(Entry::new(key, count));
        run = rest;
    }
    Ok(())
}

impl std::fmt::Display for MalformedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a run ends in the middle of an entry")
    }
}

impl std::error::Error for MalformedRun {}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(entries: &[Entry]) -> Vec<(Vec<u8>, u64)> {
        let key = |entry: &Entry| {
            let mut key = Vec::new();
            entry.push_key(&mut key);
            (key, entry.count)
        };
        entries.iter().map(key).collect()
    }

    #[test]
    fn keys_are_ordered_as_bytes_are() {
        let mut some: Vec<&[u8]> = vec![
            b"",
            b"a",
            b"a\0",
            b"a\0\0",
            b"ab",
            b"b",
            b"0123456789abcdef",
            b"0123456789abcdef\0",
            b"0123456789abcdefg",
            b"0123456789abcde",
            b"\xff",
            b"\xff\xff",
            b"\0",
        ];
        let found = keys(&merge(some.iter().map(|key| Entry::new(key, 1)).collect()));
        some.sort();
        assert_eq!(found, some.iter().map(|key| (key.to_vec(), 1)).collect::<Vec<_>>());
    }

    #[test]
    fn a_short_key_is_the_same_as_a_number() {
        for word in ["a", "heliostat", "sixteen-letters!"] {
            let mut bytes = [0; 16];
            bytes[..word.len()].copy_from_slice(word.as_bytes());
            let short = Entry::short(u128::from_le_bytes(bytes), 3);
            assert!(short.compare(&Entry::new(word.as_bytes(), 1)).is_eq());
            assert_eq!(keys(&[short]), [(word.as_bytes().to_vec(), 3)]);
        }
    }

    #[test]
    fn partitions_part_what_is_encoded_and_runs_become_one() {
        let words: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"a much longer key than others"];
        let entries = merge(words.iter().map(|key| Entry::new(key, 2)).collect());
        let (ends, bytes) = encode(&entries, &[b"b".to_vec(), b"b".to_vec(), b"d".to_vec()]);
        assert_eq!(ends.len(), 4);
        let part =
            |n: usize| &bytes[if n == 0 { 0 } else { ends[n - 1] as usize }..ends[n] as usize];
        let mut twice = Vec::new();
        for n in [0, 1, 2, 3, 2, 0] {
            decode(part(n), &mut twice).unwrap();
        }
        let found = keys(&merge(twice));
        let counts = [(words[0], 4), (words[4], 4), (words[1], 4), (words[2], 4), (words[3], 2)];
        assert_eq!(found, counts.map(|(key, count)| (key.to_vec(), count)));
        assert_eq!(part(1), b"", "between two equal splitters lies nothing");
    }

    #[test]
    fn a_run_that_is_cut_off_is_refused() {
        let (_, bytes) = encode(&[Entry::new(b"key", 1)], &[]);
        for end in 1..bytes.len() {
            assert_eq!(decode(&bytes[..end], &mut Vec::new()), Err(MalformedRun), "{end}");
        }
    }
}
