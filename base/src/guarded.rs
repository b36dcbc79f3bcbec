//! A copy that may fault: bytes of a mapped file, or of wherever a program's call points to.
//!
//! A page of a mapped file may be gone when it is read: truncated, unreadable on its device, or
//! unmapped by another thread; and a program may pass any number as an address. The kernel answers
//! with SIGBUS or SIGSEGV at the loading or storing instruction. All loads and stores of such a copy
//! are therefore made by one routine whose instructions lie between two known addresses; a signal
//! handler that finds the program counter there asks [`resume_at`] where to go on, and the copy ends
//! with [`Fault`], so that the caller may let the kernel answer EFAULT.
//!
//! Without such a handler a fault ends the process, as any other would.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::place;
use crate::sys::{check, raw, Errno, Sysno};

// heliostat_guarded_copy(rdi: to, rsi: from, rdx: bytes) -> rax: 0, or 1 after a fault.
// A leaf without a frame: wherever it is interrupted, the return address is on top of the stack.
// Up to 256 bytes go by overlapping loads from both ends, all loads of a size class before its
// stores; up to 1024 in blocks; more go by `rep movsb`, which is the processor's own best copy from
// there on (4096 bytes: 83 ns, by blocks of 64 111 ns, of 256 with AVX-512 96 ns; 1024: 33, 29, 21).
// Its loads are ordered before later ones like any others: of string copies only the stores among
// themselves are not (source: Intel SDM, volume 3, memory ordering). An lfence would cost 44 ns.
core::arch::global_asm!(
    ".hidden heliostat_guarded_copy",
    ".globl heliostat_guarded_copy",
    ".hidden heliostat_guarded_end",
    ".globl heliostat_guarded_end",
    ".hidden heliostat_guarded_faulted",
    ".globl heliostat_guarded_faulted",
    ".type heliostat_guarded_copy,@function",
    ".balign 64",
    "heliostat_guarded_copy:",
    "cmp rdx, 16",
    "jb 20f",
    "cmp rdx, 32",
    "ja 2f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "2:",
    "cmp rdx, 64",
    "ja 3f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "xor eax, eax",
    "ret",
    "3:",
    "cmp rdx, 1024",
    "ja 5f",
    // 65 to 1024: blocks of 64 bytes, then the last 64, which may overlap them.
    "lea rcx, [rdx - 64]",
    "4:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rcx, 64",
    "ja 4b",
    "movups xmm0, [rsi + rcx]",
    "movups xmm1, [rsi + rcx + 16]",
    "movups xmm2, [rsi + rcx + 32]",
    "movups xmm3, [rsi + rcx + 48]",
    "movups [rdi + rcx], xmm0",
    "movups [rdi + rcx + 16], xmm1",
    "movups [rdi + rcx + 32], xmm2",
    "movups [rdi + rcx + 48], xmm3",
    "xor eax, eax",
    "ret",
    "5:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    "20:",
    "cmp rdx, 8",
    "jb 21f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "21:",
    "cmp rdx, 4",
    "jb 22f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "22:",
    "test rdx, rdx",
    "jz 24f",
    "23:",
    "movzx eax, byte ptr [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jnz 23b",
    "24:",
    "xor eax, eax",
    "ret",
    // heliostat_guarded_touch(rdi: a byte) -> rax: the same. Stores what is there.
    ".hidden heliostat_guarded_touch",
    ".globl heliostat_guarded_touch",
    "heliostat_guarded_touch:",
    "lock or byte ptr [rdi], 0",
    "xor eax, eax",
    "ret",
    "heliostat_guarded_end:",
    "heliostat_guarded_faulted:",
    "mov eax, 1",
    "ret",
    ".size heliostat_guarded_copy, . - heliostat_guarded_copy",
);

extern "C" {
    fn heliostat_guarded_copy(to: *mut u8, from: *const u8, bytes: usize) -> u64;
    fn heliostat_guarded_touch(at: *mut u8) -> u64;
    fn heliostat_guarded_end();
    fn heliostat_guarded_faulted();
}

const PAGE_BYTES: usize = 4096;
/// Pages that are asked about: each is a system call of some 200 ns, once per mapping.
const SAMPLES_MAX: usize = 32;

/// A load or store of a guarded copy met memory that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// Where a thread goes on whose program counter is `at` when SIGBUS or SIGSEGV strikes: `None`
/// when the fault is not a guarded copy's. For signal handlers; touches nothing.
pub fn resume_at(at: usize) -> Option<usize> {
    let begin = heliostat_guarded_copy as *const () as usize;
    let end = heliostat_guarded_end as *const () as usize;
    (begin..end).contains(&at).then_some(heliostat_guarded_faulted as *const () as usize)
}

/// Copies `bytes` bytes between memory of ours and memory that may not be there, in any direction.
///
/// # Errors
/// A fault of either side; part of it may be written.
///
/// # Safety
/// What lies at `from`, if anything does, may be read, what lies at `to`, if anything does, may be
/// written, and they do not overlap. Either may be changed by others meanwhile: the bytes are then
/// any mixture.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault is defined (the module's head).
    match unsafe { heliostat_guarded_copy(to, from, bytes) } {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

/// True when a byte can be written; it keeps its value, whoever else writes it at the same time.
///
/// # Safety
/// What lies at `at`, if anything does, is the program's to be written.
#[inline(always)]
pub unsafe fn is_writable(at: *mut u8) -> bool {
    // SAFETY: the caller's promise; a fault is defined (the module's head).
    unsafe { heliostat_guarded_touch(at) == 0 }
}

/// Copies what a program points to, wherever that is.
///
/// # Errors
/// A fault; part of `into` may be written.
///
/// # Safety
/// What lies at `from`, if anything does, may be read (no device registers).
pub unsafe fn fetch(from: usize, into: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `into` is writable; the caller promises the rest.
    unsafe { copy(into.as_mut_ptr(), from as *const u8, into.len()) }
}

/// Copies to where a program points.
///
/// # Errors
/// A fault; part of it may be written.
///
/// # Safety
/// What lies at `to`, if anything does, is the program's to be written.
pub unsafe fn store(to: usize, from: &[u8]) -> Result<(), Fault> {
    // SAFETY: `from` is readable; the caller promises the rest.
    unsafe { copy(to as *mut u8, from.as_ptr(), from.len()) }
}

/// A file's bytes as they are mapped now; const, so that tables of them need no allocation.
///
/// Readers take no lock. Another thread may unmap it meanwhile: the reader gets a fault, or bytes
/// of whatever came to lie there. Its caller has to find out by other means whether what it got
/// holds, as with a sequence lock.
pub struct FileView {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

impl FileView {
    /// Nothing is mapped.
    pub const fn empty() -> Self {
        Self { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Maps the first `bytes` of `fd`, shared and read-only, out of the program's way. The view must
    /// be empty.
    ///
    /// # Errors
    /// The kernel's: ENOMEM, EACCES, ENODEV; EINVAL for no bytes. The view stays empty.
    pub fn map(&self, fd: i32, bytes: usize) -> Result<(), Errno> {
        let (prot, flags) = (libc::PROT_READ as usize, libc::MAP_SHARED as usize);
        let args = [place::out_of_the_way(bytes), bytes, prot, flags, fd as usize, 0];
        // SAFETY: a new mapping where the kernel finds nothing, at the place or elsewhere, takes
        // nothing from anybody.
        let start = check(unsafe { raw(Sysno::mmap as usize, args) })?;
        self.start.store(start, Relaxed);
        self.bytes.store(bytes, Release);
        Ok(())
    }

    /// Unmaps it. One thread at a time.
    pub fn unmap(&self) {
        let bytes = self.bytes.swap(0, Relaxed);
        let start = self.start.swap(0, Relaxed);
        if start != 0 {
            // SAFETY: this view made the mapping, and gives it up only once. Readers that are in
            // it meet a fault, which is what guarded copies are for.
            unsafe { raw(Sysno::munmap as usize, [start, bytes, 0, 0, 0, 0]) };
        }
    }

    /// Bytes that are mapped, zero for none.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Acquire)
    }

    /// The share of pages in memory, of a sample spread over the view, in percent; 100 where the
    /// kernel does not tell. Only while no other thread unmaps it.
    pub fn percent_in_memory(&self) -> u32 {
        let (start, bytes) = (self.start.load(Relaxed), self.bytes.load(Relaxed));
        let pages = bytes.div_ceil(PAGE_BYTES);
        let samples = pages.min(SAMPLES_MAX);
        let is_there = |sample: &usize| {
            let page = start + sample * pages / samples * PAGE_BYTES;
            let mut state = 1u8;
            let args = [page, PAGE_BYTES, &raw mut state as usize, 0, 0, 0];
            // SAFETY: mincore writes one byte for one page, into `state`.
            unsafe { raw(Sysno::mincore as usize, args) };
            state & 1 == 1
        };
        let there = (0..samples).filter(is_there).count();
        (there * 100).checked_div(samples).unwrap_or(100) as u32
    }

    /// Copies from byte `at` on; how many, fewer than `into` has at the end of the view.
    ///
    /// # Errors
    /// A fault, on either side. Part of `into` may be written.
    #[inline(always)]
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<usize, Fault> {
        let bytes = self.bytes.load(Acquire).saturating_sub(at).min(into.len());
        let from = self.start.load(Relaxed).wrapping_add(at);
        // SAFETY: `into` is writable for `bytes`. The source is read by instructions whose fault
        // is defined (the module's head), and no Rust reference is made to it.
        let answer = unsafe { heliostat_guarded_copy(into.as_mut_ptr(), from as *const u8, bytes) };
        if answer == 0 {
            Ok(bytes)
        } else {
            Err(Fault)
        }
    }
}

#[cfg(test)]
#[path = "guarded_tests.rs"]
mod tests;
