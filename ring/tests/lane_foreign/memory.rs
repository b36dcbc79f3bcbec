//! Memory for a lane under test: guarded on all sides, and, if wanted, changing under every look.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use heliostat_base::guarded::Fault;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::stream::Place;

/// Where the direction header lies; a page before it and all up to the ring is guard.
pub const WORDS: usize = 4096;
/// Where the ring lies.
pub const DATA: usize = 8192;
const HEADER_BYTES: usize = 256;
const GUARD: u8 = 0xe7;

/// A mapping with a header, a ring, and guards whose bytes nobody may change.
pub struct Arena {
    pub memory: Arc<SharedMapping>,
    pub capacity: u32,
}

impl Arena {
    pub fn new(capacity: u32) -> Option<Self> {
        let length = DATA + capacity as usize + 4096;
        let (_, memory) = SharedMapping::create(c"lane-foreign", length).ok()?;
        let arena = Self { memory: Arc::new(memory), capacity };
        for (at, bytes) in arena.guards() {
            arena.memory.copy_in(at, &vec![GUARD; bytes]).expect("inside");
        }
        Some(arena)
    }

    fn guards(&self) -> [(usize, usize); 3] {
        let behind = WORDS + HEADER_BYTES;
        [(0, WORDS), (behind, DATA - behind), (DATA + self.capacity as usize, 4096)]
    }

    pub fn check_guards(&self) {
        for (at, length) in self.guards() {
            let mut bytes = vec![0; length];
            self.memory.copy_out(at, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|byte| *byte == GUARD), "written outside, beside {at}");
        }
    }

    /// All words of the header.
    pub fn words(&self) -> [u32; HEADER_BYTES / 4] {
        std::array::from_fn(|word| self.memory.atomic_u32(WORDS + word * 4).load(SeqCst))
    }

    /// All bytes of the ring.
    pub fn ring(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.capacity as usize];
        self.memory.copy_out(DATA, &mut bytes).expect("inside");
        bytes
    }
}

/// One write of the peer that strikes inside a call: after so many looks at words.
pub struct Strike {
    pub looks: u8,
    pub offset: usize,
    pub value: u64,
}

/// A place whose words the peer changes between two looks of one call. What a lane loads twice
/// without need, it sees with two values here.
#[derive(Clone)]
pub struct Restless {
    arena: Arc<Arena>,
    strikes: Arc<Mutex<VecDeque<Strike>>>,
}

impl Restless {
    pub fn new(arena: &Arc<Arena>) -> Self {
        Self { arena: arena.clone(), strikes: Arc::default() }
    }

    pub fn strikes(&self) -> &Mutex<VecDeque<Strike>> {
        &self.strikes
    }

    fn look(&self) {
        let mut strikes = self.strikes.lock().expect("nobody panics with it");
        while let Some(next) = strikes.front_mut() {
            if next.looks > 0 {
                next.looks -= 1;
                return;
            }
            let (offset, value) = (WORDS + next.offset, next.value);
            match offset % 8 == 0 {
                true => self.arena.memory.atomic_u64(offset).store(value, SeqCst),
                false => self.arena.memory.atomic_u32(offset).store(value as u32, SeqCst),
            }
            strikes.pop_front();
        }
    }

    fn check_range(&self, at: usize, length: usize) {
        let capacity = self.arena.capacity as usize;
        assert!(at < capacity && length <= capacity - at, "{length} bytes at {at} of {capacity}");
    }
}

// SAFETY: the capacity is a power of two and constant, words and bytes lie in a mapping that
// `arena` keeps, and every access to them is checked by that mapping.
unsafe impl Place for Restless {
    fn capacity(&self) -> u64 {
        u64::from(self.arena.capacity)
    }

    fn u32(&self, offset: usize) -> &AtomicU32 {
        self.look();
        self.arena.memory.atomic_u32(WORDS + offset)
    }

    fn u64(&self, offset: usize) -> &AtomicU64 {
        self.look();
        self.arena.memory.atomic_u64(WORDS + offset)
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) -> Result<(), Fault> {
        self.check_range(at, to.len());
        self.arena.memory.copy_out(DATA + at, to).expect("inside");
        Ok(())
    }

    fn copy_in(&self, at: usize, from: &[u8]) -> Result<(), Fault> {
        self.check_range(at, from.len());
        self.arena.memory.copy_in(DATA + at, from).expect("inside");
        Ok(())
    }

    fn claim_line(&self, at: usize) {
        self.check_range(at, 1);
    }

    fn fetch_line(&self, at: usize) {
        self.check_range(at, 1);
    }
}
