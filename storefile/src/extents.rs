//! Extents: which grains of the data belong to whom, and how free ones are found.

use crate::error::StoreError;

/// Extents of one area at most: what keeps its entry, and the map of whoever uses it, small.
pub const EXTENTS_MAX: usize = 64;

/// Grains one after the other, counted from the beginning of the data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Extent {
    /// The first.
    pub first: u64,
    /// How many, at least 1.
    pub grains: u64,
}

impl Extent {
    /// The grain behind the last.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.grains)
    }
}

/// A part of an area, where it lies on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte on the device.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Grains of all the extents.
pub(crate) fn grains(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.grains).sum()
}

/// Where the extents, sorted, overlap each other or end beyond the limit; `None` if nowhere.
pub(crate) fn overlap(sorted: &[Extent], limit: u64) -> Option<Extent> {
    let mut before = 0;
    for extent in sorted {
        let end = extent.first.checked_add(extent.grains);
        if extent.grains == 0 || extent.first < before || end.is_none_or(|end| end > limit) {
            return Some(*extent);
        }
        before = extent.end();
    }
    None
}

/// What is left of `limit` grains beside the sorted extents.
pub(crate) fn gaps(sorted: &[Extent], limit: u64) -> Vec<Extent> {
    let (mut found, mut before) = (Vec::new(), 0);
    for extent in sorted.iter().chain([&Extent { first: limit, grains: 0 }]) {
        if extent.first > before {
            found.push(Extent { first: before, grains: extent.first - before });
        }
        before = before.max(extent.end());
    }
    found
}

/// Chooses grains: the first gap that has all of them, else the first gaps one after the other.
/// What follows the end of `behind` is preferred, so that an area that grows stays in one piece.
pub(crate) fn choose(
    gaps: &[Extent],
    wanted: u64,
    behind: &[Extent],
) -> Result<Vec<Extent>, StoreError> {
    let mut extents = behind.to_vec();
    let next = behind.last().and_then(|last| gaps.iter().find(|gap| gap.first == last.end()));
    let mut left = wanted;
    if let Some(gap) = next {
        append(&mut extents, Extent { grains: gap.grains.min(left), ..*gap });
        left -= gap.grains.min(left);
    }
    let others = || gaps.iter().filter(|gap| Some(*gap) != next);
    if let Some(whole) = others().find(|gap| gap.grains >= left) {
        append(&mut extents, Extent { grains: left, ..*whole });
        left = 0;
    }
    for gap in others() {
        append(&mut extents, Extent { grains: gap.grains.min(left), ..*gap });
        left -= gap.grains.min(left);
    }
    match extents.len() {
        0..=EXTENTS_MAX => Ok(extents),
        _ => Err(StoreError::Fragmented { limit: EXTENTS_MAX }),
    }
}

/// Adds an extent, to the last one if it follows that.
pub(crate) fn append(extents: &mut Vec<Extent>, extent: Extent) {
    match extents.last_mut() {
        _ if extent.grains == 0 => {}
        Some(last) if last.end() == extent.first => last.grains += extent.grains,
        _ => extents.push(extent),
    }
}

/// Keeps the first grains and returns the others.
pub(crate) fn cut(extents: &mut Vec<Extent>, keep: u64) -> Vec<Extent> {
    let (mut left, mut kept, mut lost) = (keep, Vec::new(), Vec::new());
    for extent in extents.drain(..) {
        let here = extent.grains.min(left);
        left -= here;
        append(&mut kept, Extent { grains: here, ..extent });
        append(&mut lost, Extent { first: extent.first + here, grains: extent.grains - here });
    }
    *extents = kept;
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, grains: u64) -> Extent {
        Extent { first, grains }
    }

    #[test]
    fn the_first_gap_that_has_room_is_taken_and_several_where_none_has() {
        let gaps = [extent(2, 2), extent(6, 5), extent(20, 3)];
        assert_eq!(choose(&gaps, 3, &[]).unwrap(), [extent(6, 3)]);
        assert_eq!(choose(&gaps, 8, &[]).unwrap(), [extent(2, 2), extent(6, 5), extent(20, 1)]);
    }

    #[test]
    fn an_area_grows_behind_itself_where_there_is_room() {
        let gaps = [extent(0, 9), extent(12, 2)];
        let behind = [extent(10, 2)];
        assert_eq!(choose(&gaps, 2, &behind).unwrap(), [extent(10, 4)]);
        assert_eq!(choose(&gaps, 3, &behind).unwrap(), [extent(10, 4), extent(0, 1)]);
    }

    #[test]
    fn more_extents_than_may_be_are_refused() {
        let gaps: Vec<_> = (0..EXTENTS_MAX as u64 + 1).map(|at| extent(at * 2, 1)).collect();
        let wanted = EXTENTS_MAX as u64;
        assert_eq!(choose(&gaps, wanted, &[]).unwrap().len(), EXTENTS_MAX);
        let refused = StoreError::Fragmented { limit: EXTENTS_MAX };
        assert_eq!(choose(&gaps, wanted + 1, &[]), Err(refused));
    }

    #[test]
    fn gaps_and_cuts_lose_nothing() {
        let used = [extent(0, 2), extent(5, 1), extent(6, 2)];
        assert_eq!(gaps(&used, 10), [extent(2, 3), extent(8, 2)]);
        assert_eq!(gaps(&[], 3), [extent(0, 3)]);
        let mut mine = vec![extent(0, 2), extent(5, 3)];
        assert_eq!(cut(&mut mine, 3), [extent(6, 2)]);
        assert_eq!(mine, [extent(0, 2), extent(5, 1)]);
        assert_eq!(cut(&mut mine, 0), [extent(0, 2), extent(5, 1)]);
    }
}
