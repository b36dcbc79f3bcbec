//! The arm that copies in and out of shared memory under a lock: a ring of slots, a mutex between
//! processes and two conditions, as a textbook has it.

use std::rc::Rc;

use super::pair::{fill, sum_of, Arm, Receiver, Sender};
use super::slots;
use crate::memory::{Memory, PAGE};
use crate::Failure;

/// What lies in the first page.
#[repr(C)]
struct Head {
    lock: libc::pthread_mutex_t,
    has_room: libc::pthread_cond_t,
    has_items: libc::pthread_cond_t,
    sent: u64,
    received: u64,
}

/// As many slots as the queue has.
pub fn ring(len: usize) -> Result<Arm, Failure> {
    let ring = Rc::new(Ring::new(len)?);
    let sender = Box::new(In { ring: ring.clone(), bytes: vec![0; len / 8] });
    // Memory of its own once it is in its own process.
    let receiver = Box::new(Out { ring, bytes: Vec::new() });
    Ok(Arm { sender, receiver, window: u32::MAX })
}

struct Ring {
    memory: Memory,
    len: usize,
    slots: usize,
}

impl Ring {
    fn new(len: usize) -> Result<Self, Failure> {
        let slots = slots(len);
        let memory = Memory::anonymous_shared(PAGE + slots * len)?;
        let ring = Self { memory, len, slots };
        let head = ring.head();
        let mut mutex = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let mut cond = std::mem::MaybeUninit::<libc::pthread_condattr_t>::uninit();
        // SAFETY: the attributes are initialised by the first call each before they are used; the
        // head is a page of zeros of its own, which stays mapped as long as `self`.
        let answers = unsafe {
            [
                libc::pthread_mutexattr_init(mutex.as_mut_ptr()),
                libc::pthread_mutexattr_setpshared(
                    mutex.as_mut_ptr(),
                    libc::PTHREAD_PROCESS_SHARED,
                ),
                libc::pthread_mutex_init(&raw mut (*head).lock, mutex.as_ptr()),
                libc::pthread_condattr_init(cond.as_mut_ptr()),
                libc::pthread_condattr_setpshared(cond.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_cond_init(&raw mut (*head).has_room, cond.as_ptr()),
                libc::pthread_cond_init(&raw mut (*head).has_items, cond.as_ptr()),
            ]
        };
        match answers.iter().all(|answer| *answer == 0) {
            true => Ok(ring),
            false => Err("no lock between processes".into()),
        }
    }

    fn head(&self) -> *mut Head {
        self.memory.start().cast()
    }

    fn slot(&self, number: u64) -> *mut u8 {
        let at = number as usize % self.slots;
        self.memory.start().wrapping_add(PAGE + at * self.len)
    }

    fn put(&self, from: *const u8) {
        let head = self.head();
        // SAFETY: the head was initialised by `new` and its counts are touched under the lock
        // only; the slot and `from` hold `len` bytes each and are different memory.
        unsafe {
            libc::pthread_mutex_lock(&raw mut (*head).lock);
            while (*head).sent - (*head).received == self.slots as u64 {
                libc::pthread_cond_wait(&raw mut (*head).has_room, &raw mut (*head).lock);
            }
            std::ptr::copy_nonoverlapping(from, self.slot((*head).sent), self.len);
            (*head).sent += 1;
            libc::pthread_mutex_unlock(&raw mut (*head).lock);
            libc::pthread_cond_signal(&raw mut (*head).has_items);
        }
    }

    fn get(&self, into: *mut u8) {
        let head = self.head();
        // SAFETY: as in `put`.
        unsafe {
            libc::pthread_mutex_lock(&raw mut (*head).lock);
            while (*head).sent == (*head).received {
                libc::pthread_cond_wait(&raw mut (*head).has_items, &raw mut (*head).lock);
            }
            std::ptr::copy_nonoverlapping(self.slot((*head).received), into, self.len);
            (*head).received += 1;
            libc::pthread_mutex_unlock(&raw mut (*head).lock);
            libc::pthread_cond_signal(&raw mut (*head).has_room);
        }
    }
}

struct In {
    ring: Rc<Ring>,
    bytes: Vec<u64>,
}

impl Sender for In {
    fn send(&mut self, seed: u64) -> Result<(), Failure> {
        let start = self.bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: the words are this value's own.
        unsafe { fill(start, self.bytes.len() * 8, seed) };
        self.ring.put(start);
        Ok(())
    }
}

struct Out {
    ring: Rc<Ring>,
    bytes: Vec<u64>,
}

impl Receiver for Out {
    fn receive(&mut self) -> Result<u64, Failure> {
        self.bytes.resize(self.ring.len / 8, 0);
        self.ring.get(self.bytes.as_mut_ptr().cast());
        Ok(sum_of(&self.bytes))
    }
}
