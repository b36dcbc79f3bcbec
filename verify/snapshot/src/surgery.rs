//! What a program may do to its mappings between two versions.

use std::ffi::c_void;
use std::io::Error;

use crate::memory::{Memory, MemoryKind};
use crate::plan::{Act, PAGE};

const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Does to one page of the region what the plan says; writes are not its business.
pub fn operate(memory: &Memory, page: usize, act: Act) -> Result<(), Error> {
    let at = memory.page(page).cast::<c_void>();
    // SAFETY: the page is the region's own, its memory is of a kind that allows it, and nothing
    // refers into it while its one writer is here. After each of them it is mapped again.
    unsafe {
        match act {
            Act::Write(_) => Ok(()),
            Act::Drop => done(libc::madvise(at, PAGE, libc::MADV_DONTNEED)),
            // A file's page has no free state.
            Act::Free if memory.kind == MemoryKind::File => Ok(()),
            Act::Free => done(libc::madvise(at, PAGE, libc::MADV_FREE)),
            Act::Protect => {
                done(libc::mprotect(at, PAGE, libc::PROT_READ))?;
                done(libc::mprotect(at, PAGE, ACCESS))
            }
            Act::Remap => {
                done(libc::munmap(at, PAGE))?;
                mapped(libc::mmap(at, PAGE, ACCESS, ANONYMOUS | libc::MAP_FIXED, -1, 0))
            }
            Act::Move => travel(at),
        }
    }
}

/// Moves a page away and back: other page tables, the same content.
///
/// # Safety
/// As for `operate`.
unsafe fn travel(at: *mut c_void) -> Result<(), Error> {
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: a fresh page that nothing refers to is replaced, and the region's page by itself.
    unsafe {
        let away = libc::mmap(std::ptr::null_mut(), PAGE, ACCESS, ANONYMOUS, -1, 0);
        mapped(away)?;
        mapped(libc::mremap(at, PAGE, PAGE, how, away))?;
        mapped(libc::mremap(away, PAGE, PAGE, how, at))
    }
}

fn done(answer: i32) -> Result<(), Error> {
    if answer == 0 {
        Ok(())
    } else {
        Err(Error::last_os_error())
    }
}

fn mapped(at: *mut c_void) -> Result<(), Error> {
    if at == libc::MAP_FAILED {
        Err(Error::last_os_error())
    } else {
        Ok(())
    }
}
