//! Where on a device a log lies, and where in its memory.
//!
//! ```text
//! area.offset   +4096     +8192                                  area.offset + area.bytes
//!   | header A  | header B | entries: position p lies at p mod data bytes ........ |
//! ```

use heliostat_backend_block::Geometry;

use crate::error::LogError;
use crate::format::{Position, DATA_BYTES_MAX, DATA_OFFSET, DATA_SECTORS_MIN, HEADER_DISTANCE};

/// A range of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// First byte, a multiple of the device's sector.
    pub offset: u64,
    /// Number of bytes, headers included: at least 8 KiB and 8 sectors.
    pub bytes: u64,
}

/// An area that was checked against its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) offset: u64,
    pub(crate) data_bytes: u64,
    pub(crate) sector: u64,
}

/// Bytes of one device operation: from `offset` on the device, `position` in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) position: u64,
    pub(crate) bytes: u64,
}

impl Layout {
    /// # Errors
    /// What of the area does not fit the device, or a log.
    pub(crate) fn of(area: Area, geometry: Geometry) -> Result<Layout, LogError> {
        let sector = u64::from(geometry.sector_bytes);
        if !matches!(sector, 512 | 4096) {
            return Err(LogError::Area { what: "sector", found: sector, wanted: 512 });
        }
        if area.offset % sector != 0 {
            let (found, wanted) = (area.offset, area.offset.next_multiple_of(sector));
            return Err(LogError::Area { what: "first byte", found, wanted });
        }
        let end = area.offset.saturating_add(area.bytes);
        if end > geometry.bytes {
            return Err(LogError::Area { what: "device", found: geometry.bytes, wanted: end });
        }
        let least = DATA_OFFSET + DATA_SECTORS_MIN * sector;
        if area.bytes < least {
            return Err(LogError::Area { what: "length", found: area.bytes, wanted: least });
        }
        let data_bytes = (area.bytes - DATA_OFFSET).min(DATA_BYTES_MAX) / sector * sector;
        Ok(Layout { offset: area.offset, data_bytes, sector })
    }

    /// Where header block `index` (0 or 1) lies.
    pub(crate) fn header(&self, index: u64) -> u64 {
        self.offset + index % 2 * HEADER_DISTANCE
    }

    /// The sector that a position lies in begins at this position.
    pub(crate) fn floor(&self, at: u64) -> u64 {
        at / self.sector * self.sector
    }

    /// The first position of a sector from `at` on.
    pub(crate) fn ceil(&self, at: u64) -> u64 {
        at.next_multiple_of(self.sector)
    }

    /// The sectors that hold positions `start..end`, as operations of at most `most` bytes, none
    /// of which goes around the area's end.
    pub(crate) fn pieces(&self, start: u64, end: u64, most: u64) -> impl Iterator<Item = Piece> {
        let (layout, end) = (*self, self.ceil(end));
        let most = self.floor(most).max(self.sector);
        let mut position = self.floor(start);
        std::iter::from_fn(move || {
            let from = position % layout.data_bytes;
            let bytes = most.min(layout.data_bytes - from).min(end.saturating_sub(position));
            let piece = Piece { offset: layout.offset + DATA_OFFSET + from, position, bytes };
            position += bytes;
            (bytes > 0).then_some(piece)
        })
    }

    /// How far positions may go while the log begins at `begin`: the sector that holds the begin is
    /// not to be written again.
    pub(crate) fn limit(&self, begin: Position) -> u64 {
        self.floor(begin.at) + self.data_bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { offset: 1024, data_bytes: 8192, sector: 512 };

    #[test]
    fn pieces_are_whole_sectors_and_do_not_go_around_the_end() {
        let found: Vec<Piece> = LAYOUT.pieces(8192 * 3 - 700, 8192 * 3 + 10, 1 << 20).collect();
        let first = Piece { offset: 1024 + 8192 + 7168, position: 8192 * 3 - 1024, bytes: 1024 };
        let second = Piece { offset: 1024 + 8192, position: 8192 * 3, bytes: 512 };
        assert_eq!(found, [first, second]);
    }

    #[test]
    fn long_ranges_are_cut_into_pieces_without_a_gap() {
        let found: Vec<Piece> = LAYOUT.pieces(100, 5000, 1500).collect();
        let ends: Vec<u64> = found.iter().map(|piece| piece.position + piece.bytes).collect();
        assert_eq!(ends, [1024, 2048, 3072, 4096, 5120]);
        assert!(LAYOUT.pieces(512, 512, 1500).next().is_none());
    }

    #[test]
    fn an_area_that_does_not_lie_on_the_device_is_refused_with_the_number() {
        let geometry = Geometry {
            bytes: 1 << 16,
            sector_bytes: 512,
            memory_alignment: 512,
            discard_zeroes: false,
        };
        let layout = |offset, bytes| Layout::of(Area { offset, bytes }, geometry);
        assert_eq!(layout(0, 12288).map(|layout| layout.data_bytes), Ok(4096));
        let wanted = LogError::Area { what: "length", found: 12287, wanted: 12288 };
        assert_eq!(layout(0, 12287), Err(wanted));
        let wanted = LogError::Area { what: "device", found: 1 << 16, wanted: (1 << 16) + 512 };
        assert_eq!(layout(512, 1 << 16), Err(wanted));
        assert!(matches!(layout(100, 12288), Err(LogError::Area { what: "first byte", .. })));
    }
}
