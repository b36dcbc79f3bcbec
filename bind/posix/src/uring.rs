//! io_uring: rings made, their entries about to be taken, descriptors registered with them.
//!
//! A call on a ring is libc's own instruction still: what its entries name is seen to before it.

use heliostat_abi::code::{Native, Unheld};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::program_rings::{self, Program, Unseen, PARAMS_BYTES};
use heliostat_stub_posix::{thread, uring};

use std::mem::MaybeUninit;

use crate::call::{by_kernel, Call};
use crate::mappings;
use crate::memory;
use crate::spawn;

/// The ring is named by its place among the registered ones (source: linux/io_uring.h).
const ENTER_REGISTERED_RING: u64 = 1 << 4;
/// Likewise, in what is to be registered.
const REGISTER_BY_PLACE: u32 = 1 << 31;

/// The program's memory, by guarded copies.
struct Guarded;

impl Program for Guarded {
    fn fetch(&self, address: u64, room: &mut [u8]) -> bool {
        if address == 0 || !memory::is_below(address, room.len() as u64) {
            return false;
        }
        // SAFETY: bytes have been written, and may be written without being read.
        let room = unsafe {
            std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<MaybeUninit<u8>>(), room.len())
        };
        // SAFETY: bytes.
        unsafe { memory::read_many(address, room) }.is_ok()
    }

    fn store(&self, address: u64, bytes: &[u8]) -> bool {
        let is_plain = address != 0 && memory::is_below(address, bytes.len() as u64);
        // SAFETY: the program's ring, which it has given to the kernel to be read and written.
        is_plain && unsafe { memory::write_many(address, bytes) }.is_ok()
    }
}

/// io_setup(2): what is submitted there is written by nobody's call, and later.
pub fn aio(_call: &mut Call<'_>) -> Verdict {
    if !thread::is_in_section() {
        mappings::give_up(Unheld::Ring);
    }
    Verdict::Pass
}

/// io_uring_setup(2)
pub fn setup(call: &mut Call<'_>) -> Verdict {
    let answer = by_kernel(call);
    if let (Ok(ring), false) = (answer, thread::is_in_section()) {
        mappings::give_up(Unheld::Ring);
        let mut params = [0; PARAMS_BYTES];
        let seen = match Guarded.fetch(call.word(1), &mut params) {
            true => program_rings::begin(ring as i32, &params),
            false => Err(Unseen),
        };
        native_unless(seen);
    }
    call.answer(Some(answer))
}

/// io_uring_enter(2)
pub fn enter(call: &mut Call<'_>) -> Verdict {
    let count = call.word(1) as u32;
    if count != 0 {
        let ring = program_rings::name(call.int(0), call.word(3) & ENTER_REGISTERED_RING != 0);
        native_unless(uring::submitting(ring, count, &Guarded));
    }
    Verdict::Pass
}

/// io_uring_register(2)
pub fn register(call: &mut Call<'_>) -> Verdict {
    let what = call.word(1) as u32;
    let (argument, count) = (call.word(2), call.word(3) as u32);
    let ring = program_rings::name(call.int(0), what & REGISTER_BY_PLACE != 0);
    let what = what & !REGISTER_BY_PLACE;
    native_unless(uring::registering(ring, what, argument, count, &Guarded));
    let answer = by_kernel(call);
    if let Ok(done) = answer {
        native_unless(uring::registered(what, argument, count, done, &Guarded));
    }
    call.answer(Some(answer))
}

/// What cannot be seen makes all of the program native.
fn native_unless(seen: Result<(), Unseen>) {
    if seen == Err(Unseen) {
        spawn::go_native(Native::Ring);
    }
}
