//! The versions that consumers may see, and what the next one consists of.

/// A version that consumers may see.
pub(super) struct Alive {
    pub(super) number: u64,
    pub(super) colours: Vec<u8>,
}

/// The versions that consumers may see, by place.
pub(super) type AliveByPlace = [Option<Alive>];

/// What a version consists of, before anybody is told of it.
pub(super) struct Made {
    pub(super) colours: Vec<u8>,
    pub(super) dirty_bytes: usize,
    pub(super) copied_bytes: usize,
    pub(super) has_raced: Option<bool>,
}

/// The colours that versions alive show of `chunk`, a bit for each.
pub(super) fn shown(alive: &AliveByPlace, chunk: usize) -> u32 {
    alive.iter().flatten().fold(0, |bits, it| bits | 1 << it.colours[chunk])
}

pub(super) fn newest(alive: &AliveByPlace) -> Option<&Alive> {
    alive.iter().flatten().max_by_key(|alive| alive.number)
}
