//! Hears of libraries that are loaded later (dlopen), before anything of them runs.
//!
//! The dynamic linker calls an empty function for debuggers whenever its list of libraries begins
//! or ends to change (`r_brk` in link.h). When it ends, what is new is mapped, and is neither
//! relocated nor run by any thread: the moment to patch it. So the empty function gets a jump. It
//! is called under the linker's lock, which its own thread may take again.

use super::assemble::{jump, Assembler};
use super::memory::{thread_count, write_text, NearMemory, Patch};
use super::object::Object;
use super::routine::{routine, Saves, Target, ROUTINES_BYTES_MAX};
use super::unwind::FrameTable;
use super::{shield, PatchError, SyscallFrame, Threads};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What the function may begin with: nothing but a return, before what assemblers fill up with.
const RETURNS: [[u8; 5]; 6] = [
    [0xc3, 0x66, 0x66, 0x2e, 0x0f],
    [0xc3, 0x66, 0x2e, 0x0f, 0x1f],
    [0xc3, 0x0f, 0x1f, 0x44, 0x00],
    [0xc3, 0x0f, 0x1f, 0x40, 0x00],
    [0xc3, 0xcc, 0xcc, 0xcc, 0xcc],
    [0xf3, 0x0f, 0x1e, 0xfa, 0xc3], // endbr64, ret
];
/// The list does not change now (source: link.h).
const CONSISTENT: i32 = 0;

/// What the dynamic linker tells debuggers (source: link.h).
#[repr(C)]
struct Debug {
    version: i32,
    map: usize,
    told_by: u64,
    state: i32,
}

/// Called with nothing, after more was loaded or something unloaded.
static LISTENER: AtomicUsize = AtomicUsize::new(0);
static DEBUG: AtomicUsize = AtomicUsize::new(0);

/// Has `listener` called whenever libraries have been loaded or unloaded, until the process ends.
/// Once, and with the same knowledge about threads as [`super::install`].
pub fn on_loading(listener: extern "C" fn(), threads: Threads) -> Result<(), PatchError> {
    let found = thread_count().map_err(PatchError::ThreadCount)?;
    if threads == Threads::MustBeAlone && found != 1 {
        return Err(PatchError::Threads { found });
    }
    // SAFETY: a name that ends with a zero byte; looks at the loaded libraries' tables only.
    let debug = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) };
    if debug.is_null() {
        return Err(PatchError::NoLinker);
    }
    // SAFETY: the dynamic linker's own structure, which is there as long as the process.
    let told_by = unsafe { (*debug.cast::<Debug>()).told_by };
    let linker = Object::all().into_iter().find(|object| object.executes(told_by));
    let linker = linker.ok_or(PatchError::NoLinker)?;
    let offset = told_by - linker.base;
    if !RETURNS.iter().any(|bytes| linker.holds(offset as u32, bytes)) {
        return Err(PatchError::TextChanged { offset: offset as u32 });
    }
    let room = ROUTINES_BYTES_MAX;
    let near = NearMemory::map(&linker.text_addresses(), room);
    let mut near = near.ok_or(PatchError::NoRoomNear { wanted: room })?;
    let start =
        entry(near.address(), near.room()).ok_or(PatchError::NoRoomNear { wanted: room })?;
    near.seal().map_err(PatchError::Protect)?;
    DEBUG.store(debug as usize, Relaxed);
    LISTENER.store(listener as usize, Relaxed);
    let patches = [Patch { address: told_by, bytes: jump(told_by, start) }];
    // SAFETY: the code is finished; the linker's text is not run now, or so the caller vouches.
    unsafe { write_text(&patches) }.map_err(PatchError::Protect)
}

/// Writes what the empty function jumps to; where it begins. No register is changed: the linker's
/// code may know that the function changes none.
fn entry(address: u64, room: &mut [u8]) -> Option<u64> {
    let mut code = Assembler::new(address, room);
    let mut frames = FrameTable::new(1);
    let target = Target {
        address: on_change as *const () as u64,
        answers: false,
        shield: shield::thread_offset(),
    };
    let routine = routine(&mut code, &mut frames, target, Saves::Xmm);
    code.align();
    let start = code.here();
    code.bytes(&[0x51, 0x41, 0x53]); // push rcx; push r11
    code.call(routine);
    code.bytes(&[0x41, 0x5b, 0x59, 0xc3]); // pop r11; pop rcx; ret
    code.finish().map(|_| start)
}

extern "C" fn on_change(_: *mut SyscallFrame) {
    let debug = DEBUG.load(Relaxed) as *const Debug;
    // SAFETY: as in `on_loading`; its own thread is in the linker, whose lock is held.
    if unsafe { (*debug).state } != CONSISTENT {
        return;
    }
    // SAFETY: the only value stored, before anything could come here.
    let listener = unsafe { std::mem::transmute::<usize, extern "C" fn()>(LISTENER.load(Relaxed)) };
    listener();
}
