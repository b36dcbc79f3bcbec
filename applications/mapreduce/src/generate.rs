//! A text that is the same everywhere: words by a Zipf law of exponent 1, from a seed.
//!
//! Only whole numbers are used, so that no machine's rounding makes another text. The words are drawn by
//! splitmix64, of 3 to 12 letters; word `k` has the weight `2^40 / k`.

use std::io::{BufWriter, Write};

use crate::Failure;

const WORDS: usize = 100_000;
const LETTERS: std::ops::RangeInclusive<u64> = 3..=12;
const WORDS_PER_LINE: u64 = 12;
/// A guess where to look for a weight: so many bits of it are looked up.
const GUIDE_BITS: u32 = 16;

/// Writes a text of at least so many bytes, which ends with a line's end; returns its bytes.
///
/// # Errors
/// What the file system says.
pub fn write(bytes: u64, seed: u64, into: impl Write) -> Result<u64, Failure> {
    let mut random = SplitMix(seed);
    let words: Vec<Vec<u8>> = (0..WORDS).map(|_| random.word()).collect();
    let zipf = Zipf::new();
    let (mut into, mut written, mut count) = (BufWriter::with_capacity(1 << 20, into), 0, 0);
    while written < bytes {
        let word = &words[zipf.draw(&mut random)];
        count += 1;
        let is_last = written + word.len() as u64 + 1 >= bytes;
        let end = if count % WORDS_PER_LINE == 0 || is_last { b"\n" } else { b" " };
        into.write_all(word)?;
        into.write_all(end)?;
        written += word.len() as u64 + 1;
    }
    into.flush()?;
    Ok(written)
}

/// Steele, Lea and Flood's generator.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the numbers from 0 to below `limit`: the high half of a product.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn word(&mut self) -> Vec<u8> {
        let letters = LETTERS.start() + self.below(LETTERS.end() - LETTERS.start() + 1);
        (0..letters).map(|_| b'a' + self.below(26) as u8).collect()
    }
}

/// The sums of the weights, and for the first bits of a sum the word to look from.
struct Zipf {
    sums: Vec<u64>,
    guide: Vec<usize>,
    shift: u32,
}

impl Zipf {
    fn new() -> Zipf {
        let weights = (1..=WORDS as u64).map(|k| (1 << 40) / k);
        let sums: Vec<u64> = weights
            .scan(0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let total = sums[WORDS - 1];
        let shift = u64::BITS - total.leading_zeros() - GUIDE_BITS;
        let first = |bits: u64| sums.partition_point(|sum| *sum <= bits << shift);
        let guide = (0..=total >> shift).map(first).collect();
        Zipf { sums, guide, shift }
    }

    fn draw(&self, random: &mut SplitMix) -> usize {
        let drawn = random.below(self.sums[WORDS - 1]);
        let from = self.guide[(drawn >> self.shift) as usize];
        let to = self.guide.get((drawn >> self.shift) as usize + 1).map_or(WORDS, |to| to + 1);
        from + self.sums[from..to.min(WORDS)].partition_point(|sum| *sum <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_same_each_time_and_of_the_length_that_was_asked() {
        let text = |seed| {
            let mut text = Vec::new();
            assert_eq!(write(100_000, seed, &mut text).unwrap(), text.len() as u64);
            text
        };
        assert_eq!(text(42), text(42));
        assert_ne!(text(42), text(43));
        assert!((100_000..100_013).contains(&text(42).len()) && text(42).ends_with(b"\n"));
    }

    #[test]
    fn every_word_is_drawn_where_its_weight_lies() {
        let zipf = Zipf::new();
        let (mut random, mut first, mut late) = (SplitMix(7), 0, 0);
        for _ in 0..100_000 {
            match zipf.draw(&mut random) {
                0 => first += 1,
                n if n >= WORDS / 2 => late += 1,
                _ => {}
            }
        }
        // 1 / H(100,000) of all is 8.3 %, and the second half of the words has 5.7 %.
        assert!(
            (7_800..8_800).contains(&first) && (5_200..6_300).contains(&late),
            "{first} {late}"
        );
    }
}
