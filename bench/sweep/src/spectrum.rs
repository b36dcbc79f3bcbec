//! What the other process computes of each version: population per energy group, and a histogram.

/// Bins of the histogram: one per power of two of the flux.
const BINS: usize = 64;

/// The analysis of one flux.
#[derive(Clone, PartialEq, Debug)]
pub struct Spectrum {
    /// Flux summed over all cells, per group: times the cell's volume it is the population.
    pub groups: Vec<f64>,
    /// How many values lie in each power of two, 2^-48 and smaller first.
    pub histogram: [u64; BINS],
}

impl Spectrum {
    /// Reads all of `flux` once, groups innermost.
    pub fn of(flux: &[f64], groups: usize) -> Self {
        let mut found = Self { groups: vec![0.0; groups], histogram: [0; BINS] };
        for cell in flux.chunks_exact(groups) {
            found.groups.iter_mut().zip(cell).for_each(|(sum, value)| *sum += value);
            for value in cell {
                let power = (value.to_bits() >> 52 & 0x7ff) as i64 - 1023;
                found.histogram[(power + 48).clamp(0, BINS as i64 - 1) as usize] += 1;
            }
        }
        found
    }

    /// A number that differs when any bit of the analysis differs (FNV-1a), and is never 0.
    pub fn digest(&self) -> u64 {
        let words = self.groups.iter().map(|sum| sum.to_bits()).chain(self.histogram);
        words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
            (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(5)
        }) | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_per_group_and_bins_are_powers_of_two() {
        let found = Spectrum::of(&[1.0, 0.25, 1.5, 0.3], 2);
        assert_eq!(found.groups, [2.5, 0.55]);
        assert_eq!((found.histogram[48], found.histogram[46]), (2, 2));
    }

    #[test]
    fn one_value_changes_the_digest() {
        let digest = |value| Spectrum::of(&[1.0, 2.0, value], 1).digest();
        assert_ne!(digest(3.0), digest(3.0000000001));
        assert_eq!(digest(3.0), digest(3.0));
    }
}
