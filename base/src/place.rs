//! Addresses for mappings inside a program: far from where the kernel puts what the program maps.
//!
//! The kernel gives a mapping the highest room that is free. Among the program's own mappings ours
//! would take room that it has left free on purpose, as below a stack that grows (MAP_GROWSDOWN,
//! mmap(2)), which then ends in a fault.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Far below the kernel's own choices, and above heaps and what sanitizers and runtimes lay out by
/// fixed addresses. A place is asked for and not insisted on.
const START: usize = 0x2000_0000_0000;
const BYTES: usize = 1 << 40;
/// Places begin where a huge page may, and one is left free between them.
const STEP_BYTES: usize = 2 << 20;

/// An address to ask the kernel for. Each is further than the one before, and the first is another
/// in each process, as the kernel has put this code anywhere (randomize_va_space, proc(5)).
pub fn out_of_the_way(bytes: usize) -> usize {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let room = bytes.saturating_add(2 * STEP_BYTES) / STEP_BYTES * STEP_BYTES;
    let taken = TAKEN.fetch_add(room, Relaxed);
    let first = out_of_the_way as *const () as usize / STEP_BYTES * STEP_BYTES;
    START + first.wrapping_add(taken) % BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_apart_and_in_their_area() {
        let sizes = [1, STEP_BYTES, STEP_BYTES + 1, 5 * STEP_BYTES, 0];
        let mut places: Vec<_> = sizes.iter().map(|size| (out_of_the_way(*size), *size)).collect();
        assert!(places.iter().all(|(place, _)| (START..START + BYTES).contains(place)));
        assert!(places.iter().all(|(place, _)| place % STEP_BYTES == 0));
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0].0 + two[0].1 + STEP_BYTES <= two[1].0));
    }
}
