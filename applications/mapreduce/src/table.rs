//! How often each word is in a text: one pass, without a copy of any word.
//!
//! A word is what lies between bytes up to the space. Sixteen bytes are looked at in one step, and a word
//! that ends within them is a number: two of them are compared by one instruction or two, and lie with
//! their count in half a cache line. Longer ones go to a map of the standard library.

use std::collections::HashMap;

use crate::entry::Entry;

/// The greatest byte that parts words.
pub const SPACE: u8 = b' ';

const STEP: usize = 16;
/// Each byte one more than the greatest that parts words; each byte's highest bit.
const ABOVE: u128 = u128::from_ne_bytes([SPACE + 1; STEP]);
const HIGHEST: u128 = u128::from_ne_bytes([0x80; STEP]);
const SLOTS_AT_FIRST: usize = 1 << 12;

#[derive(Clone, Copy, Default)]
struct Slot {
    /// 0 where there is none: no word is empty, or has a byte that is zero.
    word: u128,
    count: u64,
}

/// Words and their counts.
pub struct Table {
    slots: Vec<Slot>,
    used: usize,
    long: HashMap<Vec<u8>, u64>,
}

impl Default for Table {
    fn default() -> Self {
        Table { slots: vec![Slot::default(); SLOTS_AT_FIRST], used: 0, long: HashMap::new() }
    }
}

impl Table {
    /// Counts the words of a text, which neither begins nor ends within one.
    pub fn count(&mut self, text: &[u8]) {
        let mut at = 0;
        while let Some(step) = text.get(at..at + STEP).and_then(|step| step.try_into().ok()) {
            let bytes = u128::from_le_bytes(step);
            // The lowest bit that is set is right; those above it may come from a borrow.
            let ends = bytes.wrapping_sub(ABOVE) & !bytes & HIGHEST;
            if ends == 0 {
                at += self.count_long(&text[at..]);
                continue;
            }
            let length = ends.trailing_zeros() as usize / 8;
            if length > 0 {
                self.add(bytes & ((1 << (length * 8)) - 1), 1);
            }
            at += length + 1;
        }
        let rest = text.get(at..).unwrap_or_default();
        rest.split(|byte| *byte <= SPACE).filter(|word| !word.is_empty()).for_each(|word| {
            let mut bytes = [0; STEP];
            bytes[..word.len()].copy_from_slice(word);
            self.add(u128::from_le_bytes(bytes), 1);
        });
    }

    /// Counts the word that a text begins with, of sixteen bytes or more; returns where the next may begin.
    fn count_long(&mut self, text: &[u8]) -> usize {
        let length = text.iter().position(|byte| *byte <= SPACE).unwrap_or(text.len());
        let word = &text[..length];
        match <[u8; STEP]>::try_from(word) {
            Ok(bytes) => self.add(u128::from_le_bytes(bytes), 1),
            Err(_) => match self.long.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(self.long.insert(word.to_vec(), 1)),
            },
        }
        length + 1
    }

    fn add(&mut self, word: u128, count: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash(word) as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.word == word {
                slot.count += count;
                return;
            }
            if slot.word == 0 {
                *slot = Slot { word, count };
                self.used += 1;
                break;
            }
            at = (at + 1) & mask;
        }
        if self.used * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let more = vec![Slot::default(); self.slots.len() * 2];
        let before = std::mem::replace(&mut self.slots, more);
        self.used = 0;
        for slot in before.into_iter().filter(|slot| slot.word != 0) {
            self.add(slot.word, slot.count);
        }
    }

    /// The words that were counted, in order.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        let short = self.slots.iter().filter(|slot| slot.word != 0);
        let short = short.map(|slot| Entry::short(slot.word, slot.count));
        let long = self.long.iter().map(|(word, count)| Entry::new(word, *count));
        let mut entries: Vec<_> = short.chain(long).collect();
        entries.sort_unstable_by(Entry::compare);
        entries
    }

    /// Forgets all, and keeps its memory.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::default());
        self.used = 0;
        self.long.clear();
    }
}

/// Both halves of a product of both halves: each bit of the word changes the low bits.
fn hash(word: u128) -> u64 {
    let low = word as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let high = (word >> 64) as u64 ^ 0xd1b5_4a32_d192_ed03;
    let product = u128::from(low) * u128::from(high);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn counted(text: &[u8]) -> BTreeMap<Vec<u8>, u64> {
        let mut table = Table::default();
        table.count(text);
        let key = |entry: &Entry| {
            let mut key = Vec::new();
            entry.push_key(&mut key);
            (key, entry.count)
        };
        table.entries().iter().map(key).collect()
    }

    fn by_the_library(text: &[u8]) -> BTreeMap<Vec<u8>, u64> {
        let mut counts = BTreeMap::new();
        for word in text.split(|byte| *byte <= SPACE).filter(|word| !word.is_empty()) {
            *counts.entry(word.to_vec()).or_insert(0) += 1;
        }
        counts
    }

    #[test]
    fn words_of_every_length_are_counted_wherever_they_lie() {
        for length in 0..40 {
            let word = "w".repeat(length);
            for text in [
                word.clone(),
                format!("{word} {word}"),
                format!("  a\t{word}\n\n{word}x {word} "),
                format!("\u{e4}{word}\u{20ac} {word}\u{ff}"),
            ] {
                assert_eq!(counted(text.as_bytes()), by_the_library(text.as_bytes()), "{text:?}");
            }
        }
    }

    #[test]
    fn a_table_grows_and_keeps_its_counts() {
        let text: String = (0..30_000).map(|n| format!("{} ", n % 9_973)).collect();
        assert_eq!(counted(text.as_bytes()), by_the_library(text.as_bytes()));
    }

    #[test]
    fn every_byte_up_to_the_space_parts_words_and_no_other_does() {
        let text: Vec<u8> = (0..=255u8).flat_map(|byte| [b'a', byte, b'b', b' ']).collect();
        assert_eq!(counted(&text), by_the_library(&text));
    }

    #[test]
    fn a_table_that_is_cleared_counts_anew() {
        let mut table = Table::default();
        table.count(b"one two a-word-of-more-than-sixteen-bytes");
        table.clear();
        assert!(table.entries().is_empty());
        table.count(b"one");
        assert_eq!(table.entries().len(), 1);
    }
}
