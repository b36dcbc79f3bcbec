//! What a lane is while both sides are honest: a bounded queue, flags and a few words.

use std::collections::VecDeque;

use super::{Step, SIGNALS};

/// The state of an honest lane.
#[derive(Default)]
pub struct Model {
    pub bytes: VecDeque<u8>,
    pub flags: u32,
    pub bells: u32,
    pub reader_asleep: bool,
    pub writer_asleep: bool,
    /// 0, 1 wanted, 2 being fulfilled.
    pub wish: u32,
    /// Bytes that went over the shadow before the ring, and how many of them were taken.
    pub before: u64,
    pub taken: u64,
}

impl Model {
    pub fn room(&self, capacity: usize) -> usize {
        capacity - self.bytes.len()
    }

    /// Bytes that a read of `limit` finds.
    pub fn front(&self, limit: usize) -> Vec<u8> {
        self.bytes.iter().take(limit).copied().collect()
    }

    /// Takes `count` bytes away; whether a sleeping writer must be looked for now.
    pub fn take(&mut self, count: usize, capacity: usize) -> bool {
        let full = capacity - capacity / 3;
        let before = self.bytes.len();
        self.bytes.drain(..count);
        self.writer_asleep && before > full && self.bytes.len() <= full
    }

    /// A flag, bell, sleep word or wish by number (`super::SIGNALS`); what the lane must answer.
    pub fn signal(&mut self, step: Step) -> Option<bool> {
        use std::mem::take;
        match step.a % SIGNALS {
            0 => self.flags |= step.word as u32,
            1 => self.reader_asleep = true,
            2 => self.reader_asleep = false,
            3 => return Some(take(&mut self.reader_asleep)),
            4 => self.writer_asleep = true,
            5 => self.writer_asleep = false,
            6 => return Some(take(&mut self.writer_asleep)),
            7 => self.wish = 1,
            8 => return Some(self.wish == 1 && take(&mut self.wish) == 1),
            9 => return Some(self.wish == 1 && std::mem::replace(&mut self.wish, 2) == 1),
            10 => self.bells = self.bells.wrapping_add(1),
            11 => self.bells = self.bells.wrapping_sub(1),
            12 => self.bells = self.bells.wrapping_sub(step.word as u32),
            _ => {}
        }
        None
    }

    /// Takes `count` bytes of payload off the shadow, and says what is left of the prefix.
    pub fn note_taken(&mut self, count: u64) -> Option<u64> {
        self.taken += count;
        self.before.checked_sub(self.taken)
    }
}
