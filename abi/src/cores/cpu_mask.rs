//! A set of cores as records carry it, and as people write it: `0-3,7`.

use std::fmt;

use super::limits::CPUS_MAX;
use crate::wire::{Reader, Writer};

const WORDS: usize = CPUS_MAX / 64;
/// Bytes of a mask in a record.
pub const MASK_BYTES: usize = WORDS * 8;

/// A set of cores.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuMask([u64; WORDS]);

/// Why a text is no set of cores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MaskError {
    /// A part is neither a number nor a range.
    Part(String),
    /// A number is beyond [`CPUS_MAX`].
    TooLarge(usize),
}

impl CpuMask {
    /// The set without a core.
    pub const EMPTY: CpuMask = CpuMask([0; WORDS]);

    /// Reads what people and the kernel write: `0-3,7`; nothing is the empty set.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<CpuMask, MaskError> {
        let mut mask = CpuMask::EMPTY;
        let parts = text.trim().split(',').map(str::trim).filter(|part| !part.is_empty());
        for part in parts {
            let wrong = || MaskError::Part(part.to_owned());
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| wrong())?;
            let last: usize = last.parse().map_err(|_| wrong())?;
            if last >= CPUS_MAX {
                return Err(MaskError::TooLarge(last));
            }
            if first > last {
                return Err(wrong());
            }
            (first..=last).for_each(|cpu| mask.insert(cpu));
        }
        Ok(mask)
    }

    /// Adds a core; one beyond [`CPUS_MAX`] is not added.
    pub fn insert(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Whether the core is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// How many cores are in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CPUS_MAX).filter(|cpu| self.contains(*cpu))
    }

    /// First and last core of each range, in order.
    pub(super) fn ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        ranges
    }

    /// Those of this set that are not in the other.
    pub fn without(&self, other: &CpuMask) -> CpuMask {
        self.by_word(other, |own, other| own & !other)
    }

    /// Those that are in one of both.
    pub fn union(&self, other: &CpuMask) -> CpuMask {
        self.by_word(other, |own, other| own | other)
    }

    /// Those that are in both.
    pub fn intersection(&self, other: &CpuMask) -> CpuMask {
        self.by_word(other, |own, other| own & other)
    }

    /// Whether each of this set is in the other.
    pub fn is_within(&self, other: &CpuMask) -> bool {
        self.without(other).is_empty()
    }

    fn by_word(&self, other: &CpuMask, combine: impl Fn(u64, u64) -> u64) -> CpuMask {
        CpuMask(std::array::from_fn(|place| combine(self.0[place], other.0[place])))
    }

    /// Writes it into a record.
    pub fn encode<'w, 'a>(&self, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
        self.0.iter().fold(w, |w, word| w.u64(*word))
    }

    /// The set in foreign bytes; every value is one.
    pub fn decode(r: &mut Reader<'_>) -> CpuMask {
        CpuMask(std::array::from_fn(|_| r.u64()))
    }
}

impl FromIterator<usize> for CpuMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuMask {
        let mut mask = CpuMask::EMPTY;
        cpus.into_iter().for_each(|cpu| mask.insert(cpu));
        mask
    }
}

impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.ranges();
        for (place, (first, last)) in ranges.into_iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuMask({self})")
    }
}

impl fmt::Display for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => write!(f, "{part:?} is neither a core nor a range as 0-3"),
            Self::TooLarge(cpu) => write!(f, "core {cpu} is beyond the limit of {CPUS_MAX}"),
        }
    }
}

impl std::error::Error for MaskError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_written_alike() {
        for text in ["", "0", "0-3,7", "1,3,5-6", "0-1023"] {
            assert_eq!(CpuMask::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuMask::parse(" 3, 1-2 \n").unwrap().to_string(), "1-3");
    }

    #[test]
    fn texts_that_are_no_sets_are_refused_with_the_part() {
        assert_eq!(CpuMask::parse("3-1"), Err(MaskError::Part("3-1".into())));
        assert_eq!(CpuMask::parse("0,x"), Err(MaskError::Part("x".into())));
        assert_eq!(CpuMask::parse("1024"), Err(MaskError::TooLarge(1024)));
    }

    #[test]
    fn sets_are_combined_and_go_through_a_record() {
        let (some, other) = (CpuMask::parse("0-3").unwrap(), CpuMask::parse("2-5").unwrap());
        assert_eq!(some.union(&other).to_string(), "0-5");
        assert_eq!(some.intersection(&other).to_string(), "2-3");
        assert_eq!(some.without(&other).to_string(), "0-1");
        assert!(!some.is_within(&other) && some.is_within(&some));
        let mut bytes = [0; MASK_BYTES];
        some.encode(&mut Writer::new(&mut bytes));
        assert_eq!(CpuMask::decode(&mut Reader::new(&bytes)), some);
    }
}
