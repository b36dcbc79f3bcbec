//! The blocks that all server loops have cached: one memory, its index in parts under a lock each.
//!
//! ```text
//! loop: lock, look, unlock --> copy --> is the place's turn the same? --yes--> it was the block
//!                                                 | no: another block lies there now
//!                                                 v
//!                                            look once more
//! ```
//!
//! A lock is held while a part of the index is looked at or changed, never while bytes move, so no
//! loop waits for another's copy or device. Many parts keep loops that read different blocks apart;
//! one loop alone has one part. Whoever fills a block tells those who wait for it, on every loop.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::OperationId;

use super::cache::{BlockKey, Cache, Found, BLOCK_BYTES};

/// Parts of the index where there are several loops.
const PARTS_MAX: u32 = 16;
/// Blocks of a part at least: less would not hold what one reader has fetched ahead.
const PART_BLOCKS_MIN: u32 = 64;

/// Who waits for a block: on which loop, and its operation.
pub type Waiter = (usize, OperationId);

/// A block that was there when it was looked for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Its place.
    pub place: u32,
    /// Bytes that are there; fewer than a block only at the file's end.
    pub bytes: u32,
    turn: u32,
}

/// The cache.
pub struct Blocks {
    /// Their bytes; the block at a place begins at `place * BLOCK_BYTES`.
    pub arena: Arc<SharedMapping>,
    parts: Box<[Part]>,
    part_blocks: u32,
    /// For each place, how many blocks have been there.
    turns: Box<[AtomicU32]>,
    seed: u64,
}

/// A part of the index. Two of them share no line.
#[repr(align(128))]
struct Part {
    cache: Mutex<Cache<Waiter>>,
    kept: AtomicU64,
}

impl Blocks {
    /// An empty cache of `cache_bytes` for so many loops.
    pub fn create(cache_bytes: u64, loops: usize) -> std::io::Result<Blocks> {
        let blocks = u32::try_from(cache_bytes / BLOCK_BYTES).unwrap_or(u32::MAX).max(1);
        let parts = if loops > 1 { (blocks / PART_BLOCKS_MIN).clamp(1, PARTS_MAX) } else { 1 };
        let part_blocks = blocks / parts;
        let bytes = (parts * part_blocks) as usize * BLOCK_BYTES as usize;
        // Pages exist once a block was put there.
        let (_fd, arena) =
            SharedMapping::create(c"heliostat-cache", bytes).map_err(std::io::Error::other)?;
        let part = |_| Part { cache: Mutex::new(Cache::new(part_blocks)), kept: AtomicU64::new(0) };
        Ok(Blocks {
            arena: Arc::new(arena),
            parts: (0..parts).map(part).collect(),
            part_blocks,
            turns: (0..parts * part_blocks).map(|_| AtomicU32::new(0)).collect(),
            seed: RandomState::new().hash_one(0),
        })
    }

    /// Looks for a block without using it.
    pub fn peek(&self, key: BlockKey) -> Found {
        let (number, part) = self.part_of(key);
        match part.lock().peek(key) {
            Found::Ready { place, bytes } => {
                Found::Ready { place: self.global(number, place), bytes }
            }
            other => other,
        }
    }

    /// A block that is there, to be copied; `holds` says afterwards whether it was that block.
    #[inline]
    pub fn ready(&self, key: BlockKey) -> Option<Ready> {
        let (number, part) = self.part_of(key);
        let cache = part.lock();
        let Found::Ready { place, bytes } = cache.peek(key) else { return None };
        let place = self.global(number, place);
        // Turns change under the lock only.
        let turn = self.turns.get(place as usize)?.load(Ordering::Relaxed);
        Some(Ready { place, bytes, turn })
    }

    /// Whether the block has been at its place all the while. What was copied before this was asked
    /// is its bytes then.
    #[inline]
    pub fn holds(&self, block: Ready) -> bool {
        // Pairs with `begin`: who has copied a byte of the next block sees its turn.
        fence(Ordering::Acquire);
        let turn = self.turns.get(block.place as usize).map(|turn| turn.load(Ordering::Acquire));
        turn == Some(block.turn)
    }

    /// The block at a place was used.
    pub fn used(&self, place: u32) {
        if let Some(part) = self.part_at(place) {
            part.lock().used(place % self.part_blocks);
        }
    }

    /// Looks for a block that is to be used.
    pub fn look(&self, key: BlockKey) {
        self.part_of(key).1.lock().look(key);
    }

    /// Waits for a block that is being filled; false when it is not.
    pub fn wait(&self, key: BlockKey, waiter: Waiter) -> bool {
        self.part_of(key).1.lock().wait(key, waiter)
    }

    /// Makes room for an absent block, which is being filled from now on: its place.
    pub fn begin(&self, key: BlockKey) -> Option<u32> {
        let (number, part) = self.part_of(key);
        let mut cache = part.lock();
        let place = self.global(number, cache.begin(key)?);
        // Pairs with `holds`; the kernel is asked to write the block's bytes only later.
        self.turns.get(place as usize)?.fetch_add(1, Ordering::AcqRel);
        part.count(&cache);
        Some(place)
    }

    /// The block at a place has so many bytes; answers who waited for it.
    pub fn filled(&self, place: u32, bytes: u32) -> Vec<Waiter> {
        let Some(part) = self.part_at(place) else { return Vec::new() };
        part.lock().filled(place % self.part_blocks, bytes)
    }

    /// The block at a place could not be filled, or is worth nothing; answers who waited for it.
    pub fn failed(&self, place: u32) -> Vec<Waiter> {
        let Some(part) = self.part_at(place) else { return Vec::new() };
        let mut cache = part.lock();
        let waiters = cache.failed(place % self.part_blocks);
        part.count(&cache);
        waiters
    }

    /// Blocks that are there or on their way. Takes no lock.
    pub fn kept(&self) -> u64 {
        self.parts.iter().map(|part| part.kept.load(Ordering::Relaxed)).sum()
    }

    fn part_of(&self, key: BlockKey) -> (u32, &Part) {
        // Multiplied, the upper bits depend on all; the seed keeps readers from choosing one part.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (key.file << 40 ^ key.block ^ self.seed).wrapping_mul(ODD);
        let number = ((mixed >> 32) * self.parts.len() as u64) >> 32;
        // The product is smaller than the number of parts.
        (number as u32, &self.parts[number as usize])
    }

    fn part_at(&self, place: u32) -> Option<&Part> {
        self.parts.get((place / self.part_blocks) as usize)
    }

    fn global(&self, number: u32, place: u32) -> u32 {
        number * self.part_blocks + place
    }
}

impl Part {
    /// A loop that has died in here takes its server with it; its sessions are ended.
    fn lock(&self) -> MutexGuard<'_, Cache<Waiter>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, cache: &Cache<Waiter>) {
        self.kept.store(cache.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::name::ObjectId;

    const MANY: u64 = 256 << 20;

    fn key(block: u64) -> BlockKey {
        BlockKey { file: 7, block }
    }

    fn fill(blocks: &Blocks, block: u64) -> Ready {
        let place = blocks.begin(key(block)).unwrap();
        assert!(blocks.filled(place, 10).is_empty());
        blocks.ready(key(block)).unwrap()
    }

    #[test]
    fn blocks_of_all_parts_have_places_of_their_own_in_one_memory() {
        let blocks = Blocks::create(MANY, 2).unwrap();
        let places: std::collections::HashSet<u32> =
            (0..500).map(|block| fill(&blocks, block).place).collect();
        assert_eq!((places.len(), blocks.kept()), (500, 500));
        let most = *places.iter().max().unwrap() as usize;
        assert!((most + 1) * BLOCK_BYTES as usize <= blocks.arena.len());
        let parts: std::collections::HashSet<u32> =
            places.iter().map(|place| place / blocks.part_blocks).collect();
        assert!(parts.len() > PARTS_MAX as usize / 2, "{parts:?}");
    }

    #[test]
    fn a_copy_of_a_place_that_has_another_block_now_does_not_count() {
        let blocks = Blocks::create(BLOCK_BYTES, 1).unwrap();
        let first = fill(&blocks, 1);
        assert!(blocks.holds(first));
        let second = fill(&blocks, 2);
        assert_eq!(first.place, second.place, "there is but one");
        assert!(!blocks.holds(first) && blocks.holds(second));
        assert!(blocks.ready(key(1)).is_none());
    }

    #[test]
    fn who_waits_is_told_with_its_loop() {
        let blocks = Blocks::create(MANY, 4).unwrap();
        let id = OperationId { seat: ObjectId::default(), operation: ObjectId::default() };
        let place = blocks.begin(key(3)).unwrap();
        assert!(blocks.wait(key(3), (2, id)) && blocks.wait(key(3), (0, id)));
        assert!(!blocks.wait(key(4), (1, id)));
        assert_eq!(blocks.filled(place, 9), [(2, id), (0, id)]);
        assert_eq!(blocks.failed(place), []);
        assert_eq!(blocks.kept(), 0);
    }

    #[test]
    fn all_parts_together_keep_no_more_than_configured() {
        for (bytes, loops) in [(BLOCK_BYTES, 16), (100 * BLOCK_BYTES, 2), (1000 * BLOCK_BYTES, 3)] {
            let blocks = Blocks::create(bytes, loops).unwrap();
            for block in 0..3000 {
                let place = blocks.begin(key(block)).unwrap();
                blocks.filled(place, 1);
            }
            assert!(blocks.kept() * BLOCK_BYTES <= bytes, "{bytes} {loops}");
            assert!(blocks.arena.len() as u64 <= bytes.max(BLOCK_BYTES));
        }
    }
}
