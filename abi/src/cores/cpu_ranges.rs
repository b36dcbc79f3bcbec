//! A set of cores in few bytes: ranges, as a request has room for them.

use super::cpu_mask::CpuMask;
use super::limits::{CPUS_MAX, RANGES_MAX};
use crate::wire::{Reader, WireError, Writer};

/// Bytes of ranges in a record: first and end of each, u16.
pub const RANGES_BYTES: usize = RANGES_MAX * 4;

/// A set of cores that consists of at most [`RANGES_MAX`] ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuRanges(CpuMask);

impl CpuRanges {
    /// The ranges of a set; `None` when they are too many.
    pub fn of(mask: CpuMask) -> Option<CpuRanges> {
        (mask.ranges().len() <= RANGES_MAX).then_some(CpuRanges(mask))
    }

    /// The set.
    pub fn mask(&self) -> CpuMask {
        self.0
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        let ranges = self.0.ranges();
        for place in 0..RANGES_MAX {
            let (first, end) = ranges.get(place).map_or((0, 0), |(first, last)| (*first, last + 1));
            w.u16(first as u16).u16(end as u16);
        }
    }

    /// The ranges in foreign bytes: ascending, apart, none after the first that is empty.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<CpuRanges, WireError> {
        let mut mask = CpuMask::EMPTY;
        let (mut least, mut is_over) = (0, false);
        for _ in 0..RANGES_MAX {
            let (first, end) = (usize::from(r.u16()), usize::from(r.u16()));
            if (first, end) == (0, 0) {
                is_over = true;
                continue;
            }
            if is_over || first < least || end <= first || end > CPUS_MAX {
                return Err(WireError::Field { name: "range", found: first as u64 });
            }
            (first..end).for_each(|cpu| mask.insert(cpu));
            // The core after a range is in no other, or both were one.
            least = end + 1;
        }
        Ok(CpuRanges(mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(mask: &str) -> CpuMask {
        let ranges = CpuRanges::of(CpuMask::parse(mask).unwrap()).unwrap();
        let mut bytes = [0; RANGES_BYTES];
        ranges.encode(&mut Writer::new(&mut bytes));
        CpuRanges::decode(&mut Reader::new(&bytes)).unwrap().mask()
    }

    #[test]
    fn ranges_go_through_a_record() {
        for text in ["", "0", "3,7", "0-3,8-11,1023"] {
            assert_eq!(through(text).to_string(), text);
        }
    }

    #[test]
    fn too_many_ranges_are_refused() {
        let odd = |count: usize| (0..count).map(|place| place * 2).collect::<CpuMask>();
        assert!(CpuRanges::of(odd(RANGES_MAX)).is_some());
        assert!(CpuRanges::of(odd(RANGES_MAX + 1)).is_none());
    }

    #[test]
    fn one_set_has_one_form_in_a_record() {
        let refused = |pairs: &[(u16, u16)]| {
            let mut bytes = [0; RANGES_BYTES];
            let mut w = Writer::new(&mut bytes);
            pairs.iter().for_each(|(first, end)| {
                w.u16(*first).u16(*end);
            });
            CpuRanges::decode(&mut Reader::new(&bytes)).is_err()
        };
        assert!(refused(&[(0, 2), (2, 4)]), "two that are one");
        assert!(refused(&[(4, 6), (0, 2)]), "out of order");
        assert!(refused(&[(3, 3)]), "an empty one");
        assert!(refused(&[(0, 0), (1, 2)]), "one after the end");
        assert!(refused(&[(0, 1025)]), "beyond the limit");
    }
}
