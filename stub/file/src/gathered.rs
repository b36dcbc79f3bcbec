//! Huge pages for the parts of a window that large reads go into.
//!
//! A device is told where each physically contiguous run of a request's memory lies. A window's
//! pages lie wherever there were some, so 64 KiB are up to 16 runs, which a virtual machine's block
//! device takes half as long again for. One huge page is one run.

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_base::mapping::{SharedMapping, HUGE_BYTES};

/// Reads from here on are worth it: those of a few pages have few runs anyway, and far apart from
/// each other they would take up much memory for little.
const BYTES_MIN: u64 = 64 * 1024;
/// Huge pages of a window, for the same reason.
const PIECES_MAX: usize = 64;

/// Which huge pages of a window were asked for.
#[derive(Default)]
pub(super) struct Gathered {
    asked: Vec<bool>,
    count: usize,
}

impl Gathered {
    /// Makes huge pages, once, of where a large read is to go. Before it is under way: pages that
    /// the device writes cannot be replaced. Where the kernel refuses, everything stays as it is.
    #[inline]
    pub(super) fn prepare(&mut self, window: &SharedMapping, operation: &Operation) {
        if operation.kind != OpKind::Read || operation.pieces.bytes() < BYTES_MIN {
            return;
        }
        for piece in operation.pieces.as_slice().iter().filter(|piece| piece.bytes > 0) {
            // What lies beyond the window is refused by whom it is asked of.
            let last = piece.offset.saturating_add(u64::from(piece.bytes) - 1);
            for index in piece.offset as usize / HUGE_BYTES..=last as usize / HUGE_BYTES {
                if self.asked.get(index) != Some(&true) {
                    self.gather(window, index);
                }
            }
        }
    }

    #[cold]
    fn gather(&mut self, window: &SharedMapping, index: usize) {
        let whole = window.len() / HUGE_BYTES;
        if index >= whole || self.count >= PIECES_MAX {
            return;
        }
        self.asked.resize(whole, false);
        self.asked[index] = true;
        self.count += 1;
        // Refused, it is as good as before.
        let _ = window.gather(index * HUGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::file::delegated::{Piece, Pieces};
    use heliostat_abi::name::ObjectId;

    fn read(offset: u64, bytes: u32) -> Operation {
        let pieces = Pieces::new(&[Piece { offset, bytes }]).unwrap();
        let (object, kind) = (ObjectId::default(), OpKind::Read);
        Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument: 0, pieces }
    }

    fn window(pages: usize) -> SharedMapping {
        SharedMapping::create(c"window", pages * HUGE_BYTES).unwrap().1
    }

    /// Bytes of a mapping that this process sees by huge pages.
    fn huge(window: &SharedMapping) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", window.as_ptr() as usize);
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
        let found = lines.find_map(|line| line.strip_prefix("ShmemPmdMapped:"));
        found.unwrap().trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    #[test]
    fn where_a_large_read_goes_a_huge_page_lies_before() {
        let (window, mut gathered) = (window(4), Gathered::default());
        gathered.prepare(&window, &read(HUGE_BYTES as u64 - 4096, 64 * 1024));
        assert_eq!(gathered.asked, [true, true, false, false]);
        // Whether there are huge pages is the machine's to say.
        if has_huge_pages() {
            assert_eq!(huge(&window), 2 * HUGE_BYTES);
        }
    }

    fn has_huge_pages() -> bool {
        window(1).gather(0).unwrap()
    }

    #[test]
    fn it_is_asked_once_and_only_for_large_reads_inside() {
        let (window, mut gathered) = (window(2), Gathered::default());
        gathered.prepare(&window, &read(0, 32 * 1024));
        gathered.prepare(&window, &Operation { kind: OpKind::Write, ..read(0, 1 << 20) });
        gathered.prepare(&window, &read(2 * HUGE_BYTES as u64, 1 << 20));
        gathered.prepare(&window, &read(u64::MAX, 1 << 20));
        assert_eq!(gathered.count, 0);
        gathered.prepare(&window, &read(0, 1 << 20));
        gathered.prepare(&window, &read(1 << 20, 1 << 20));
        assert_eq!((gathered.count, gathered.asked), (1, vec![true, false]));
    }

    #[test]
    fn reads_all_over_a_window_do_not_make_all_of_it_memory() {
        let (window, mut gathered) = (window(PIECES_MAX + 3), Gathered::default());
        for index in 0..PIECES_MAX + 3 {
            gathered.prepare(&window, &read((index * HUGE_BYTES) as u64, 64 * 1024));
        }
        assert_eq!(gathered.count, PIECES_MAX);
    }
}
