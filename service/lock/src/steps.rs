//! What sessions do in the tests of properties, and of which names.

use heliostat_abi::lock::Shape;

/// What a session does, or what happens to it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open { session: u32, name: u32 },
    Close { session: u32, which: usize },
    Acquire { session: u32, which: usize, shared: bool, permits: u32, wait: bool },
    Arrive { session: u32, which: usize },
    Release { session: u32, which: usize, untouched: bool },
    Cancel { session: u32, which: usize },
    Reset { session: u32, which: usize },
    Next { session: u32 },
    End { session: u32 },
    Revoke { session: u32 },
}

/// What of names there is: each name is always opened as the same.
pub(crate) fn shape(name: u32) -> Shape {
    match name {
        0 => Shape::LOCK,
        1 => Shape::READER_WRITER,
        2 => Shape::semaphore(4).unwrap(),
        3 => Shape::barrier(3).unwrap(),
        _ => Shape::LOCK.silent(),
    }
}
