//! What is searched, generated from a seed: texts whose words are as frequent as a language's, and
//! features of images that lie in groups.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Different words of the texts.
const WORDS: usize = 50_000;
/// Numbers in one image's features.
pub const DIMENSIONS: usize = 64;
/// Images that look alike, as a share of all.
const GROUPS: usize = 200;

/// The word of a rank: rank 0 is the most frequent.
pub fn word(rank: usize) -> String {
    let mut left = rank + 26;
    let mut word = String::new();
    while left > 0 {
        word.push(char::from(b'a' + u8::try_from(left % 26).expect("below 26")));
        left /= 26;
    }
    word
}

/// A rank by Zipf's law, whose density is 1 / rank: the logarithm of the rank is even.
pub fn rank(random: &mut SmallRng) -> usize {
    let even: f64 = random.random();
    ((WORDS as f64).powf(even) - 1.0) as usize
}

/// Writes texts `0.txt`, `1.txt` and so on.
///
/// # Errors
/// As of writing files.
pub fn write_texts(into: &Path, files: usize, words: usize, seed: u64) -> io::Result<()> {
    fs::create_dir_all(into)?;
    let mut random = SmallRng::seed_from_u64(seed);
    for number in 0..files {
        let mut text = String::new();
        for _ in 0..random.random_range(words / 2..words * 3 / 2) {
            write!(text, "{} ", word(rank(&mut random))).expect("memory");
        }
        fs::write(into.join(format!("{number}.txt")), text)?;
    }
    Ok(())
}

/// One image's features.
pub type Features = [f32; DIMENSIONS];

/// Features of `images`, in groups; the same for the same seed.
pub fn features(images: usize, seed: u64) -> Vec<Features> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut centres = vec![[0.0; DIMENSIONS]; GROUPS];
    for number in centres.iter_mut().flatten() {
        *number = random.random_range(-1.0..1.0);
    }
    let mut all = Vec::with_capacity(images);
    for _ in 0..images {
        let centre = centres[random.random_range(0..GROUPS)];
        all.push(centre.map(|number: f32| number + random.random_range(-0.3..0.3)));
    }
    all
}

/// Features as bytes, little-endian, one image after the other.
pub fn to_bytes(features: &[Features]) -> Vec<u8> {
    features.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
}

/// Features from bytes; what is not a whole image at the end is left out.
pub fn from_bytes(bytes: &[u8]) -> Vec<Features> {
    bytes
        .chunks_exact(DIMENSIONS * 4)
        .map(|image| {
            let mut features = [0.0; DIMENSIONS];
            for (number, bytes) in features.iter_mut().zip(image.chunks_exact(4)) {
                *number = f32::from_le_bytes(bytes.try_into().expect("four"));
            }
            features
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_different_ranks_differ_and_frequent_ones_are_frequent() {
        let all: std::collections::HashSet<_> = (0..WORDS).map(word).collect();
        assert_eq!(all.len(), WORDS);
        let mut random = SmallRng::seed_from_u64(1);
        let ranks: Vec<_> = (0..10_000).map(|_| rank(&mut random)).collect();
        let low = ranks.iter().filter(|rank| **rank < 10).count();
        assert!((1_000..4_000).contains(&low), "{low} of 10,000 are the ten most frequent words");
        assert!(ranks.iter().all(|rank| *rank < WORDS));
    }

    #[test]
    fn features_come_back_from_bytes_and_a_torn_image_is_left_out() {
        let all = features(10, 3);
        let mut bytes = to_bytes(&all);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(from_bytes(&bytes), all[..9]);
    }
}
