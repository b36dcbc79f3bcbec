//! What the fuzz target and the replay test do with one input: a peer's words, written anywhere.
//!
//! ```text
//! input = records of 11 bytes:  [what u8][offset u16][word u64]
//! what  = 0..=3 write the word at the offset (control page or data)   4 take   5 reserve
//!         6 attach anew   7 pop with many threads' end
//! ```
//! Every answer is right that is an answer: no panic, no access outside, no endless loop.

use std::sync::atomic::Ordering::Relaxed;

use heliostat_ring::memory::{Memory, Word};
use heliostat_ring::{Refresh, RingMemory};
use std::os::fd::AsRawFd;

const CAPACITY: u64 = 4096;

pub fn exercise(input: &[u8]) {
    let Ok((fd, memory)) = RingMemory::create(c"ring-foreign", CAPACITY) else { return };
    let Ok(mut producer) = memory.spsc_producer(Refresh::Eager) else { return };
    for record in input.chunks_exact(11) {
        let offset = usize::from(u16::from_le_bytes([record[1], record[2]]));
        let mut word = [0; 8];
        word.copy_from_slice(&record[3..]);
        let word = u64::from_le_bytes(word);
        match record[0] % 8 {
            0 => memory.word(Word::Head).store(word, Relaxed),
            1 => memory.word(Word::Tail).store(word, Relaxed),
            2 | 3 => memory.header((offset % CAPACITY as usize) & !7).store(word, Relaxed),
            4 => take(&memory),
            5 => drop(producer.push(&vec![0xa5; offset % 2100])),
            6 => drop(RingMemory::attach(fd.as_raw_fd(), offset & !4095)),
            _ => take_as_one_of_many(&memory),
        }
    }
}

fn take(memory: &std::sync::Arc<RingMemory>) {
    let mut consumer = memory.spsc_consumer(Refresh::Eager).expect("given back every time");
    for _ in 0..3 {
        let mut into = [0; 100];
        let _ = consumer.pop(&mut into);
    }
}

fn take_as_one_of_many(memory: &std::sync::Arc<RingMemory>) {
    let consumer = memory.consumer().expect("given back every time");
    let first = consumer.take();
    let mut into = [0; 100];
    let _ = consumer.pop(&mut into);
    drop(first);
}
