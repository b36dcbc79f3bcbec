//! Memory near libc for the trampolines, and the one moment in which its text is writable.
//!
//! While the text is writable it is not executable, so nothing here may call libc in between,
//! not even by way of a memory copy or a signal handler: signals are blocked, bytes are written
//! one at a time, and the system calls are our own instructions.

use crate::site::JUMP_BYTES;
use heliostat_base::sys::{check, raw, Errno};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::{fs, io, ptr};

pub(super) const PAGE_BYTES: u64 = 4096;
/// Source: linux/mman.h (madvise(2), Linux 5.14).
const MADV_POPULATE_WRITE: usize = 23;
/// The reach of a 32-bit displacement, less a margin for what is on either end.
const REACH_BYTES: u64 = (1 << 31) - (1 << 24);
/// How far apart free places are looked for, and how often.
const STEP_BYTES: u64 = 1 << 20;
const STEPS_MAX: u64 = 1024;
/// Exit status when the text cannot be made executable again; nothing could run then.
const EXIT_STRANDED: usize = 70;

/// A jump to be written over the start of a window.
#[derive(Clone, Copy)]
pub(super) struct Patch {
    /// Where.
    pub address: u64,
    /// What.
    pub bytes: [u8; JUMP_BYTES],
}

/// Fresh memory within reach of libc's text. Stays mapped unless dropped before [`Self::seal`].
pub(super) struct NearMemory {
    address: u64,
    bytes: usize,
}

impl NearMemory {
    /// Maps `bytes` of memory so near that each end of `text` reaches all of it.
    pub fn map(text: &Range<u64>, bytes: usize) -> Option<NearMemory> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES as usize);
        // The kernel's own choice is nearly always beside the libraries; else walk downwards.
        let below = (1..=STEPS_MAX).map(|step| text.start.saturating_sub(step * STEP_BYTES));
        [0].into_iter().chain(below).find_map(|hint| {
            let near = NearMemory::map_at(hint, bytes)?;
            let low = near.address.min(text.start);
            let high = (near.address + bytes as u64).max(text.end);
            (high - low < REACH_BYTES).then_some(near)
        })
    }

    fn map_at(hint: u64, bytes: usize) -> Option<NearMemory> {
        NearMemory::map_with(hint & !(PAGE_BYTES - 1), bytes, 0)
    }

    /// Maps `bytes` of memory at this address, if nothing is there.
    pub fn map_exactly(address: u64, bytes: usize) -> Option<NearMemory> {
        let near = NearMemory::map_with(address, bytes, libc::MAP_FIXED_NOREPLACE)?;
        // A kernel that does not know the flag takes the address for a hint (before Linux 4.17).
        (near.address == address).then_some(near)
    }

    fn map_with(hint: u64, bytes: usize, besides: i32) -> Option<NearMemory> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // All pages at once: one by one, as they are written, they take three times as long.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | besides;
        let args = [hint as usize, bytes, protection as usize, flags as usize, usize::MAX, 0];
        // SAFETY: without MAP_FIXED the kernel maps only where nothing is mapped (mmap(2)).
        let address = check(unsafe { raw(libc::SYS_mmap as usize, args) }).ok()?;
        Some(NearMemory { address: address as u64, bytes })
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// All of it, to be filled with code.
    pub fn room(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is ours, writable, `bytes` long, zero at first, and lives as long as
        // `self`; nobody else knows of it.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) }
    }

    /// Makes what was filled in executable, for ever.
    pub fn seal(self) -> Result<(), Errno> {
        let whole = self.address..self.address + self.bytes as u64;
        // SAFETY: the range is exactly our own mapping.
        unsafe { protect(&whole, libc::PROT_READ | libc::PROT_EXEC) }?;
        std::mem::forget(self);
        Ok(())
    }
}

/// Pages of a file, mapped to be executed. Stay mapped unless dropped before [`Self::keep`].
pub(super) struct FilePages {
    address: u64,
    bytes: usize,
}

impl FilePages {
    /// Maps `bytes` of the file from `offset` at this address, if nothing is there.
    pub fn map_exactly(address: u64, bytes: usize, file: &File, offset: usize) -> Option<Self> {
        let flags = libc::MAP_FIXED_NOREPLACE;
        // SAFETY: with this flag the kernel maps only where nothing is mapped (mmap(2)).
        let mapped = unsafe { map_file(address, bytes, file, offset, flags) }.ok()?;
        let pages = Self { address: mapped, bytes };
        (mapped == address).then_some(pages)
    }

    /// Leaves them for ever.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for FilePages {
    fn drop(&mut self) {
        let args = [self.address as usize, self.bytes, 0, 0, 0, 0];
        // SAFETY: the range is exactly our own mapping, and no pointer to it is left.
        unsafe { raw(libc::SYS_munmap as usize, args) };
    }
}

/// Maps pages of a file over text, all at once; on an error the text is as before.
///
/// # Safety
/// The file's pages hold the same code as the text, but for jumps to finished code, over
/// instructions among which no thread is.
pub(super) unsafe fn replace_text(
    span: &Range<u64>,
    file: &File,
    offset: usize,
) -> Result<(), Errno> {
    let bytes = (span.end - span.start) as usize;
    // SAFETY: the caller's promise: whoever executes this text goes on in the same.
    unsafe { map_file(span.start, bytes, file, offset, libc::MAP_FIXED) }.map(drop)
}

/// # Safety
/// As mmap(2) with these flags.
unsafe fn map_file(
    address: u64,
    bytes: usize,
    file: &File,
    offset: usize,
    flags: i32,
) -> Result<u64, Errno> {
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    let flags = (libc::MAP_PRIVATE | flags) as usize;
    let args =
        [address as usize, bytes, protection as usize, flags, file.as_raw_fd() as usize, offset];
    // SAFETY: the caller's promise.
    check(unsafe { raw(libc::SYS_mmap as usize, args) }).map(|mapped| mapped as u64)
}

/// A whole file in memory, for reading, for ever.
pub(super) fn map_whole(file: &File, bytes: usize) -> Result<&'static [u8], Errno> {
    let (protection, flags) = (libc::PROT_READ as usize, libc::MAP_PRIVATE as usize);
    let args = [0, bytes, protection, flags, file.as_raw_fd() as usize, 0];
    // SAFETY: the kernel maps where nothing is mapped.
    let address = check(unsafe { raw(libc::SYS_mmap as usize, args) })?;
    // SAFETY: just mapped, that long, and nobody unmaps it. Nobody but its owner, who may do anything
    // here, can write the file.
    Ok(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) })
}

impl Drop for NearMemory {
    fn drop(&mut self) {
        let args = [self.address as usize, self.bytes, 0, 0, 0, 0];
        // SAFETY: the range is exactly our own mapping, and no pointer to it is left.
        unsafe { raw(libc::SYS_munmap as usize, args) };
    }
}

/// Writes the jumps into libc's text. On an error nothing has been written.
///
/// # Safety
/// Each patch must be a jump to finished code, over instructions of libc's text among which no
/// thread is, and no thread but this one may execute libc until this returns.
pub(super) unsafe fn write_text(patches: &[Patch]) -> Result<(), Errno> {
    let first = patches.iter().map(|p| p.address).min();
    let last = patches.iter().map(|p| p.address + JUMP_BYTES as u64).max();
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let span = first & !(PAGE_BYTES - 1)..last.next_multiple_of(PAGE_BYTES);
    let blocked = u64::MAX;
    let mut before = 0_u64;
    // SAFETY: both masks are live 8-byte kernel signal sets.
    unsafe { signal_mask(&raw const blocked, &raw mut before) }?;
    // SAFETY: the span lies in libc's text, of which this thread executes nothing until the
    // second `protect`; signals are blocked; other threads are the caller's promise.
    let written = unsafe { write_unlocked(&span, patches) };
    // SAFETY: as above; the old mask goes back.
    unsafe { signal_mask(&raw const before, ptr::null_mut()) }?;
    written
}

/// # Safety
/// As [`write_text`], with signals blocked, and `span` covering all patches within libc's text.
unsafe fn write_unlocked(span: &Range<u64>, patches: &[Patch]) -> Result<(), Errno> {
    // SAFETY: the caller's promise; a private file mapping becomes a private copy on writing.
    unsafe { protect(span, libc::PROT_READ | libc::PROT_WRITE) }?;
    // SAFETY: as above; this changes no byte.
    unsafe { copy_pages(patches) };
    for patch in patches {
        let mut index = 0;
        while index < JUMP_BYTES {
            let at = (patch.address as usize + index) as *mut u8;
            // SAFETY: `span` is mapped writable and covers every patch. Volatile, so that the
            // compiler cannot make a call to libc's memcpy of it, which is not executable now.
            unsafe { ptr::write_volatile(at, patch.bytes[index]) };
            index += 1;
        }
    }
    // SAFETY: as above; this gives the text its original protection.
    if unsafe { protect(span, libc::PROT_READ | libc::PROT_EXEC) }.is_err() {
        // SAFETY: exit_group touches no memory. There is no libc left to return to.
        unsafe { raw(libc::SYS_exit_group as usize, [EXIT_STRANDED, 0, 0, 0, 0, 0]) };
    }
    Ok(())
}

/// Makes the private copies of all pages that will be written, each run of neighbours at once:
/// one by one, as they are written, they take longer. Where the kernel cannot (before Linux 5.14)
/// they are.
///
/// # Safety
/// The patches lie in private memory that is writable now.
#[inline(always)]
unsafe fn copy_pages(patches: &[Patch]) {
    let (mut from, mut to) = (0, 0);
    let mut index = 0;
    while index <= patches.len() {
        let next = if index < patches.len() { patches[index].address } else { u64::MAX };
        let page = next & !(PAGE_BYTES - 1);
        if page > to {
            let args = [from as usize, (to - from) as usize, MADV_POPULATE_WRITE, 0, 0, 0];
            // SAFETY: the caller's promise; it is as if each page were written with what it holds.
            unsafe { raw(libc::SYS_madvise as usize, args) };
            from = page;
        }
        to = ((next.saturating_add(JUMP_BYTES as u64 - 1)) | (PAGE_BYTES - 1)).saturating_add(1);
        index += 1;
    }
}

/// # Safety
/// Nobody may depend on another protection of this range while it has the new one.
#[inline(always)]
unsafe fn protect(range: &Range<u64>, protection: i32) -> Result<(), Errno> {
    let bytes = (range.end - range.start) as usize;
    let args = [range.start as usize, bytes, protection as usize, 0, 0, 0];
    // SAFETY: the caller's promise.
    check(unsafe { raw(libc::SYS_mprotect as usize, args) }).map(|_| ())
}

/// # Safety
/// `new` must be readable for 8 bytes, `old` writable for 8 bytes or null.
#[inline(always)]
unsafe fn signal_mask(new: *const u64, old: *mut u64) -> Result<(), Errno> {
    let args = [libc::SIG_SETMASK as usize, new as usize, old as usize, 8, 0, 0];
    // SAFETY: the caller's promise.
    check(unsafe { raw(libc::SYS_rt_sigprocmask as usize, args) }).map(|_| ())
}

/// How many threads this process has. The kernel counts them into the link count of the
/// directory (fs/proc/base.c, proc_task_getattr), so that it need not be listed.
pub(super) fn thread_count() -> io::Result<u64> {
    // A question without a path: it changes nothing, and fails unless this thread is the only one
    // (unshare(2)). Sealed programs need not ask for it.
    let args = [libc::CLONE_THREAD as usize, 0, 0, 0, 0, 0];
    // SAFETY: takes no pointer; this flag alone only asks.
    if check(unsafe { raw(libc::SYS_unshare as usize, args) }).is_ok() {
        return Ok(1);
    }
    Ok(fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}

/// Whether returns are checked against a shadow stack in this thread.
pub(super) fn shadow_stack_enabled() -> bool {
    const ARCH_SHSTK_STATUS: usize = 0x5005; // source: Documentation/arch/x86/shstk.rst
    let mut features = 0_u64;
    let args = [ARCH_SHSTK_STATUS, &raw mut features as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes 8 bytes to `features`, or fails where it has no such feature.
    let answer = unsafe { raw(libc::SYS_arch_prctl as usize, args) };
    answer == 0 && features & 1 != 0
}
