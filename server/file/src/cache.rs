//! Which blocks of which files lie where in the cache: S3-FIFO, bounded, scan-resistant.
//!
//! ```text
//!  first use -> small (a tenth) --used again--> main --not used again--> gone
//!                 | not used again                ^
//!                 v                               | asked for again
//!               gone, its name remembered (ghost) -
//! ```
//!
//! A scan passes through the small queue and leaves the main one alone. Only places and names are
//! kept here; the bytes lie with the server, at `place * BLOCK_BYTES`. A block that is being filled
//! has a list of those who wait for it, so that many readers of one block read the device once.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher};

/// Bytes of a block: large enough that a miss is worth the device's trip, small enough that random
/// reads do not read much for nothing.
pub const BLOCK_BYTES: u64 = 64 * 1024;
/// Uses that are counted: more say nothing more.
const USES_MAX: u8 = 3;
/// One part of so many is for blocks that were used once.
const SMALL_SHARE: usize = 10;

/// A block of a version of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockKey {
    /// The server's number for this version of the file: as wide as it can never come round.
    pub file: u64,
    /// Number of the block.
    pub block: u64,
}

/// What is known of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It lies at this place, with so many bytes; fewer than a block only at the file's end.
    Ready {
        /// Its place.
        place: u32,
        /// Bytes that are there.
        bytes: u32,
    },
    /// Somebody is reading it from the device.
    Filling,
    /// It is not there.
    Absent,
}

#[derive(Clone, Debug)]
enum State<W> {
    Free,
    Filling(Vec<W>),
    Ready(u32),
}

#[derive(Clone, Debug)]
struct Place<W> {
    key: BlockKey,
    uses: u8,
    state: State<W>,
}

/// A keyed hash of a few numbers by one multiplication each: a hit is looked up for every read, and
/// the usual hash takes a tenth of it. The key keeps readers from choosing blocks that collide.
#[derive(Clone, Copy, Debug)]
struct Keyed(u64);

impl Keyed {
    fn new() -> Keyed {
        Keyed(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Keyed {
    type Hasher = Fold;
    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }
    fn write_u64(&mut self, number: u64) {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ number) * ODD;
        self.0 = (product >> 64) as u64 ^ product as u64 ^ self.0.rotate_left(32);
    }
}

/// The cache's index; `W` names who waits for a block.
#[derive(Clone, Debug)]
pub struct Cache<W> {
    places: Vec<Place<W>>,
    free: Vec<u32>,
    by_key: HashMap<BlockKey, u32, Keyed>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<BlockKey>,
    is_ghost: HashSet<BlockKey>,
}

impl<W> Cache<W> {
    /// An empty cache of so many blocks.
    pub fn new(blocks: u32) -> Cache<W> {
        let key = BlockKey { file: 0, block: 0 };
        let places = (0..blocks).map(|_| Place { key, uses: 0, state: State::Free }).collect();
        Cache {
            places,
            free: (0..blocks).rev().collect(),
            by_key: HashMap::with_capacity_and_hasher(blocks as usize, Keyed::new()),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            is_ghost: HashSet::new(),
        }
    }

    /// Blocks that are there or on their way.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Looks for a block without using it.
    pub fn peek(&self, key: BlockKey) -> Found {
        let Some(index) = self.by_key.get(&key) else { return Found::Absent };
        match self.places.get(*index as usize).map(|place| &place.state) {
            Some(State::Ready(bytes)) => Found::Ready { place: *index, bytes: *bytes },
            Some(State::Filling(_)) => Found::Filling,
            Some(State::Free) | None => Found::Absent,
        }
    }

    /// Looks for a block that is to be used.
    pub fn look(&mut self, key: BlockKey) -> Found {
        let found = self.peek(key);
        if let Found::Ready { place, .. } = found {
            self.used(place);
        }
        found
    }

    /// The block at a place, which `peek` has found, was used.
    pub fn used(&mut self, place: u32) {
        if let Some(place) = self.places.get_mut(place as usize) {
            place.uses = (place.uses + 1).min(USES_MAX);
        }
    }

    /// Waits for a block that is being filled; false when it is not.
    pub fn wait(&mut self, key: BlockKey, waiter: W) -> bool {
        let Some(index) = self.by_key.get(&key) else { return false };
        match &mut self.places[*index as usize].state {
            State::Filling(waiters) => {
                waiters.push(waiter);
                true
            }
            State::Ready(_) | State::Free => false,
        }
    }

    /// Makes room for an absent block, which is being filled from now on: its place. `None` when
    /// every place is being filled, or the block is there.
    pub fn begin(&mut self, key: BlockKey) -> Option<u32> {
        if self.by_key.contains_key(&key) {
            return None;
        }
        let index = self.free.pop().or_else(|| self.evict())?;
        let state = State::Filling(Vec::new());
        self.places[index as usize] = Place { key, uses: 0, state };
        self.by_key.insert(key, index);
        match self.is_ghost.remove(&key) {
            true => self.main.push_back(index),
            false => self.small.push_back(index),
        }
        Some(index)
    }

    /// The block at a place has so many bytes; answers who waited for it.
    pub fn filled(&mut self, index: u32, bytes: u32) -> Vec<W> {
        let Some(place) = self.places.get_mut(index as usize) else { return Vec::new() };
        match std::mem::replace(&mut place.state, State::Ready(bytes)) {
            State::Filling(waiters) => waiters,
            before => {
                place.state = before;
                Vec::new()
            }
        }
    }

    /// The block at a place could not be filled, or is worth nothing; answers who waited for it.
    pub fn failed(&mut self, index: u32) -> Vec<W> {
        let Some(place) = self.places.get_mut(index as usize) else { return Vec::new() };
        let waiters = match std::mem::replace(&mut place.state, State::Free) {
            State::Filling(waiters) => waiters,
            State::Ready(_) => Vec::new(),
            State::Free => return Vec::new(),
        };
        let key = place.key;
        self.by_key.remove(&key);
        // Seldom, so that a search is no harm; entries that led nowhere would pile up.
        self.small.retain(|other| *other != index);
        self.main.retain(|other| *other != index);
        self.free.push(index);
        waiters
    }

    /// Takes a block's place, by the rules in the drawing; blocks on their way stay.
    fn evict(&mut self) -> Option<u32> {
        let rounds = (self.small.len() + self.main.len()) * (usize::from(USES_MAX) + 2);
        for _ in 0..rounds {
            let is_small =
                self.main.is_empty() || self.small.len() * SMALL_SHARE > self.places.len();
            let index = if is_small { self.small.pop_front() } else { self.main.pop_front() };
            let index = index.or_else(|| self.main.pop_front())?;
            let place = &mut self.places[index as usize];
            let is_filling = matches!(place.state, State::Filling(_));
            match (is_small, place.uses) {
                (true, _) if is_filling => self.small.push_back(index),
                (false, _) if is_filling => self.main.push_back(index),
                (true, 1..) => {
                    place.uses = 0;
                    self.main.push_back(index);
                }
                (false, 1..) => {
                    place.uses -= 1;
                    self.main.push_back(index);
                }
                (is_small, 0) => {
                    let key = place.key;
                    place.state = State::Free;
                    self.by_key.remove(&key);
                    if is_small {
                        self.remember(key);
                    }
                    return Some(index);
                }
            }
        }
        None
    }

    fn remember(&mut self, key: BlockKey) {
        if self.is_ghost.insert(key) {
            self.ghosts.push_back(key);
        }
        // Names that came back are gone from the set, and leave the queue when they reach its front.
        while self.ghosts.len() > self.places.len() {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.is_ghost.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u64) -> BlockKey {
        BlockKey { file: 1, block }
    }

    fn read(cache: &mut Cache<u32>, block: u64) -> bool {
        match cache.look(key(block)) {
            Found::Ready { .. } => true,
            _ => {
                let place = cache.begin(key(block)).expect("a place");
                cache.filled(place, 10);
                false
            }
        }
    }

    fn touch(cache: &mut Cache<u32>, block: u64) {
        let _ = read(cache, block);
    }

    #[test]
    fn many_who_want_one_block_fill_it_once_and_are_all_told() {
        let mut cache = Cache::new(4);
        let place = cache.begin(key(7)).unwrap();
        assert_eq!((cache.begin(key(7)), cache.look(key(7))), (None, Found::Filling));
        assert!(cache.wait(key(7), 1) && cache.wait(key(7), 2) && !cache.wait(key(8), 3));
        assert_eq!(cache.filled(place, 9), [1, 2]);
        assert_eq!(cache.look(key(7)), Found::Ready { place, bytes: 9 });
        assert!(!cache.wait(key(7), 1));
        assert!(cache.filled(place, 8).is_empty(), "twice");
    }

    #[test]
    fn what_is_used_again_survives_a_scan() {
        let mut cache = Cache::new(100);
        for _ in 0..3 {
            (0..50).for_each(|block| touch(&mut cache, block));
        }
        (1000..3000).for_each(|block| touch(&mut cache, block));
        let kept = (0..50).filter(|block| read(&mut cache, *block)).count();
        assert!(kept >= 45, "{kept}");
        assert!(cache.len() <= 100);
    }

    #[test]
    fn what_comes_back_soon_goes_to_the_main_queue() {
        let mut cache = Cache::new(20);
        (0..30).for_each(|block| touch(&mut cache, block));
        assert!(!read(&mut cache, 5), "it was pushed out, its name is remembered");
        (100..118).for_each(|block| touch(&mut cache, block));
        assert!(read(&mut cache, 5));
    }

    #[test]
    fn blocks_on_their_way_are_not_pushed_out_and_a_full_cache_says_so() {
        let mut cache: Cache<u32> = Cache::new(3);
        let places: Vec<_> = (0..3).map(|block| cache.begin(key(block)).unwrap()).collect();
        assert_eq!(cache.begin(key(9)), None);
        cache.wait(key(1), 4);
        assert_eq!(cache.failed(places[1]), [4]);
        assert_eq!((cache.look(key(1)), cache.failed(places[1])), (Found::Absent, vec![]));
        assert!(cache.begin(key(9)).is_some());
    }

    #[test]
    fn a_cache_of_no_places_is_always_full() {
        let mut cache: Cache<u32> = Cache::new(0);
        assert_eq!((cache.begin(key(1)), cache.len()), (None, 0));
        assert!(cache.failed(0).is_empty());
    }
}
