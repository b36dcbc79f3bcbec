//! Where the bytes of an area lie on a device, in several places perhaps.

/// Bytes of a device one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First byte on the device.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The places of an area, in the order of its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extents {
    /// Where each begins in the area, and where it lies.
    runs: Vec<(u64, Run)>,
    bytes: u64,
}

impl Extents {
    /// Places one behind the other; `None` where one is empty or ends beyond what can be counted.
    pub fn new(runs: impl IntoIterator<Item = Run>) -> Option<Extents> {
        let (mut placed, mut bytes) = (Vec::new(), 0u64);
        for run in runs {
            let ends = run.offset.checked_add(run.bytes).is_some() && run.bytes > 0;
            placed.push((bytes, run));
            bytes = bytes.checked_add(run.bytes).filter(|_| ends)?;
        }
        Some(Extents { runs: placed, bytes })
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The places.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs.iter().map(|(_, run)| *run)
    }

    /// Where the byte `at` of the area lies, and how many of those behind it follow there, `most` at
    /// most. `None` behind the end.
    pub fn run(&self, at: u64, most: u64) -> Option<Run> {
        let behind = self.runs.partition_point(|(begins, _)| *begins <= at);
        let (begins, run) = self.runs.get(behind.checked_sub(1)?)?;
        let skipped = at - begins;
        let bytes = run.bytes.checked_sub(skipped).filter(|left| *left > 0)?;
        Some(Run { offset: run.offset + skipped, bytes: bytes.min(most) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offset: u64, bytes: u64) -> Run {
        Run { offset, bytes }
    }

    #[test]
    fn every_byte_is_found_where_its_extent_lies() {
        let extents = Extents::new([run(1000, 10), run(50, 5), run(2000, 1)]).unwrap();
        let places: Vec<u64> = (0..16).map(|at| extents.run(at, 1).unwrap().offset).collect();
        let wanted: Vec<u64> = (1000..1010).chain(50..55).chain([2000]).collect();
        assert_eq!((extents.bytes(), places), (16, wanted));
        assert_eq!(extents.run(7, 100), Some(run(1007, 3)));
        assert_eq!(extents.run(10, 3), Some(run(50, 3)));
        assert_eq!(extents.run(16, 1), None);
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        assert_eq!(Extents::new([run(0, 1), run(5, 0)]), None);
        assert_eq!(Extents::new([run(u64::MAX, 1)]), None);
        assert_eq!(Extents::new([run(0, u64::MAX - 1), run(1, 5)]), None);
        assert_eq!(Extents::new([]).map(|none| (none.bytes(), none.run(0, 1))), Some((0, None)));
    }
}
