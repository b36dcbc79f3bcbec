//! Call-frame information for the trampolines, so that unwinding passes through them.
//!
//! Who unwinds here: glibc's thread cancellation, when the signal strikes while the hook makes a
//! call of its own, and backtraces. A trampoline looks to the unwinder like a function of no
//! size that the site called: its return address is a constant, the one after the `syscall`
//! instruction, and its stack is the site's. Every instruction is described, because an
//! asynchronous cancellation may strike at any (DWARF 5, section 6.4; register numbers: x86-64
//! psABI, figure 3.36).

use std::ffi::CStr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use std::{mem, ptr, slice};

use super::memory;

/// Where the caller's frame begins, from some instruction on.
#[derive(Clone, Copy)]
pub(super) enum Cfa {
    /// rsp plus a constant.
    Stack(u32),
    /// rcx plus a constant.
    Rcx(u32),
    /// The word at `[rsp + at]`, plus a constant.
    SavedStack {
        /// Offset of the word.
        at: u8,
        /// The constant.
        plus: u8,
    },
}

const RCX: u8 = 2;
const RSP: u8 = 7;
const RETURN_ADDRESS: u8 = 16;

const CFA_ADVANCE_LOC4: u8 = 0x04;
const CFA_DEF_CFA: u8 = 0x0c;
const CFA_DEF_CFA_EXPRESSION: u8 = 0x0f;
const CFA_VAL_EXPRESSION: u8 = 0x16;
const CFA_OFFSET: u8 = 0x80;
const OP_DEREF: u8 = 0x06;
const OP_CONST8U: u8 = 0x0e;
const OP_PLUS_UCONST: u8 = 0x23;
const OP_BREG0: u8 = 0x70;

/// What an entry takes: the trampolines that are most have 64.
const ENTRY_BYTES: usize = 72;
/// Length of the one CIE below, with its length field.
const CIE_BYTES: usize = 24;

/// Where an entry says which code it describes, and where its instructions begin.
const START_AT: usize = 8;
const INSTRUCTIONS_AT: usize = 24;
/// How those of code that runs in place of other code begin; an address follows.
const MOVED: [u8; 7] = [CFA_DEF_CFA, RSP, 0, CFA_VAL_EXPRESSION, RETURN_ADDRESS, 9, OP_CONST8U];

/// An `.eh_frame` section being written.
pub(super) struct FrameTable {
    bytes: Vec<u8>,
    entry_at: usize,
    location: u64,
}

impl FrameTable {
    /// A table with its CIE: absolute addresses, CFA at rsp + 8, return address below it; with
    /// room for about so many entries.
    pub fn new(entries: usize) -> FrameTable {
        let mut bytes = Vec::with_capacity(CIE_BYTES + entries * ENTRY_BYTES);
        bytes.resize(8, 0); // length (below), CIE id 0
        bytes.extend_from_slice(&[1, 0]); // version, no augmentation
        bytes.extend_from_slice(&[1, 0x78, RETURN_ADDRESS]); // code align 1, data align -8
        bytes.extend_from_slice(&[CFA_DEF_CFA, RSP, 8, CFA_OFFSET | RETURN_ADDRESS, 1]);
        bytes.resize(CIE_BYTES, 0);
        bytes[..4].copy_from_slice(&(CIE_BYTES as u32 - 4).to_le_bytes());
        FrameTable { bytes, entry_at: 0, location: 0 }
    }

    /// Begins a routine that is called as usual.
    pub fn begin_called(&mut self, start: u64) {
        self.entry_at = self.bytes.len();
        self.location = start;
        let to_cie = self.entry_at as u32 + 4;
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&to_cie.to_le_bytes());
        self.bytes.extend_from_slice(&start.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
    }

    /// Begins code that runs in place of code before `caller`, on the same stack.
    pub fn begin_moved(&mut self, start: u64, caller: u64) {
        self.begin_called(start);
        self.bytes.extend_from_slice(&MOVED);
        self.bytes.extend_from_slice(&caller.to_le_bytes());
    }

    /// From `address` on, the caller's frame begins there.
    pub fn cfa(&mut self, address: u64, cfa: Cfa) {
        let advance = (address - self.location) as u32;
        self.location = address;
        self.bytes.push(CFA_ADVANCE_LOC4);
        self.bytes.extend_from_slice(&advance.to_le_bytes());
        match cfa {
            Cfa::Stack(offset) => self.def_cfa(RSP, offset),
            Cfa::Rcx(offset) => self.def_cfa(RCX, offset),
            Cfa::SavedStack { at, plus } => {
                let expression = [OP_BREG0 + RSP, at, OP_DEREF, OP_PLUS_UCONST, plus];
                self.bytes.extend_from_slice(&[CFA_DEF_CFA_EXPRESSION, expression.len() as u8]);
                self.bytes.extend_from_slice(&expression);
            }
        }
    }

    /// Ends what was begun last.
    pub fn end(&mut self, end: u64) {
        let at = self.entry_at;
        let mut start = [0; 8];
        start.copy_from_slice(&self.bytes[at + 8..at + 16]);
        let length = end - u64::from_le_bytes(start);
        self.bytes[at + 16..at + 24].copy_from_slice(&length.to_le_bytes());
        let padded = at + (self.bytes.len() - at).next_multiple_of(8);
        self.bytes.resize(padded, 0); // DW_CFA_nop
        let entry_bytes = (self.bytes.len() - at - 4) as u32;
        self.bytes[at..at + 4].copy_from_slice(&entry_bytes.to_le_bytes());
    }

    /// The section, with the zero that ends it.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes
    }

    /// Offsets below 128, in one byte of ULEB128, or in two.
    fn def_cfa(&mut self, register: u8, offset: u32) {
        self.bytes.extend_from_slice(&[CFA_DEF_CFA, register]);
        let low = (offset & 0x7f) as u8;
        match offset >> 7 {
            0 => self.bytes.push(low),
            high => self.bytes.extend_from_slice(&[low | 0x80, high as u8 & 0x7f]),
        }
    }
}

/// libgcc's function that tells it of a section.
type RegisterFrame = unsafe extern "C" fn(*const u8);

/// Sections that the program's unwinder does not know yet: libc's, and those of other files.
static UNTOLD: [AtomicPtr<u8>; SECTIONS_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SECTIONS_MAX];
/// Files of one program that are patched, at most.
pub(super) const SECTIONS_MAX: usize = 64;

/// Takes a finished section, which is kept for ever, as the trampolines are.
///
/// The unwinder that has to know it is the program's, which glibc too uses: libgcc_s. It is told
/// now if the program has it, and else by `before_thread`.
pub(super) fn register(section: Vec<u8>) {
    keep(section);
    // SAFETY: the name of a global function, and no library in particular.
    tell(unsafe { libc::dlsym(libc::RTLD_DEFAULT, FUNCTION.as_ptr()) });
}

/// As `register`, for a section of an image, which is copied only for an unwinder. `moved`: how far
/// from where it was written the code lies.
pub(super) fn register_image(section: &'static [u8], moved: u64) {
    IMAGE_MOVED.store(moved, Relaxed);
    IMAGE_BYTES.store(section.len(), Relaxed);
    IMAGE.store(section.as_ptr().cast_mut(), Release);
    // SAFETY: as above.
    tell(unsafe { libc::dlsym(libc::RTLD_DEFAULT, FUNCTION.as_ptr()) });
}

/// The section of an image that no unwinder knows yet, and what `register_image` was told of it.
static IMAGE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static IMAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
static IMAGE_MOVED: AtomicU64 = AtomicU64::new(0);

fn keep(section: Vec<u8>) {
    let section = section.leak().as_mut_ptr();
    let take = |place: &AtomicPtr<u8>| {
        place.compare_exchange(ptr::null_mut(), section, AcqRel, Relaxed).is_ok()
    };
    // There is a place for each file that is patched.
    let _ = UNTOLD.iter().any(take);
}

/// Takes the image's section for one of this process's own.
fn take_image() {
    let section = IMAGE.swap(ptr::null_mut(), AcqRel);
    if section.is_null() {
        return;
    }
    // SAFETY: what `register_image` was given, which stays.
    let section = unsafe { slice::from_raw_parts(section, IMAGE_BYTES.load(Relaxed)) };
    let mut section = section.to_vec();
    if move_by(&mut section, IMAGE_MOVED.load(Relaxed)).is_some() {
        keep(section);
    }
}

/// Corrects all addresses of a finished table: the code it describes lies elsewhere by so much. `None`
/// if it is none.
fn move_by(section: &mut [u8], by: u64) -> Option<()> {
    let mut at = CIE_BYTES;
    loop {
        let length = u32::from_le_bytes(*section.get(at..)?.first_chunk()?) as usize;
        if length == 0 {
            return Some(());
        }
        let entry = section.get_mut(at..at.checked_add(4 + length)?)?;
        move_word(entry, START_AT, by)?;
        let is_moved = entry.get(INSTRUCTIONS_AT..)?.starts_with(&MOVED);
        if is_moved {
            move_word(entry, INSTRUCTIONS_AT + MOVED.len(), by)?;
        }
        at += 4 + length;
    }
}

fn move_word(entry: &mut [u8], at: usize, by: u64) -> Option<()> {
    let word: &mut [u8; 8] = entry.get_mut(at..)?.first_chunk_mut()?;
    *word = u64::from_le_bytes(*word).wrapping_add(by).to_le_bytes();
    Some(())
}

/// To be called before a thread is made. glibc loads libgcc_s when a thread is cancelled or ends
/// itself for the first time; by then it has to know the trampolines. So the first thread loads
/// it; only the first, because later another one may be loading something, and wait for this one.
/// A program of one thread that loads it later does without: a backtrace that it takes in a signal
/// handler ends at the trampoline that the signal struck.
///
/// errno is as before.
pub fn before_thread() {
    let is_untold = |place: &AtomicPtr<u8>| !place.load(Relaxed).is_null();
    if !(is_untold(&UNTOLD[0]) || is_untold(&IMAGE)) || WAS_TRIED.swap(true, Relaxed) {
        return;
    }
    // SAFETY: errno is this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if matches!(memory::thread_count(), Ok(1)) {
        // SAFETY: a C string; what is loaded stays, and its constructor is libgcc's.
        let library = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) };
        tell(match library.is_null() {
            true => library,
            // SAFETY: a library that stays, and a C string.
            false => unsafe { libc::dlsym(library, FUNCTION.as_ptr()) },
        });
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// It was tried to load it.
static WAS_TRIED: AtomicBool = AtomicBool::new(false);
const FUNCTION: &CStr = c"__register_frame";

/// Tells the unwinder that has this function; null is nobody.
fn tell(function: *mut libc::c_void) {
    if function.is_null() {
        // What was not found is no error of the program's, which may ask for its last.
        // SAFETY: takes nothing; the text is not looked at.
        unsafe { libc::dlerror() };
        return;
    }
    take_image();
    // SAFETY: libgcc's function of this name takes a section.
    let function = unsafe { mem::transmute::<*mut libc::c_void, RegisterFrame>(function) };
    for place in &UNTOLD {
        let section = place.swap(ptr::null_mut(), AcqRel);
        if !section.is_null() {
            // SAFETY: a well-formed .eh_frame that ends with a zero word, lives for ever and never
            // changes. libgcc keeps the pointer.
            unsafe { function(section) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(base: u64) -> Vec<u8> {
        let mut table = FrameTable::new(2);
        table.begin_called(base);
        table.cfa(base + 3, Cfa::Rcx(8));
        table.cfa(base + 9, Cfa::SavedStack { at: 56, plus: 8 });
        table.end(base + 300);
        table.begin_moved(base + 4096, base + 0x1000_0000);
        table.cfa(base + 4120, Cfa::Stack(128));
        table.end(base + 4200);
        table.finish()
    }

    #[test]
    fn a_moved_table_is_the_one_that_is_written_there() {
        let (here, there) = (0x7f12_3456_7000, 0x7fff_0000_0000);
        let mut moved = table(here);
        assert_eq!(move_by(&mut moved, there - here), Some(()));
        assert_eq!(moved, table(there));
        assert_eq!(move_by(&mut moved, here.wrapping_sub(there)), Some(()));
        assert_eq!(moved, table(here));
    }

    #[test]
    fn what_is_cut_is_no_table() {
        let whole = table(0x7f12_3456_7000);
        for end in 0..whole.len() {
            assert_eq!(move_by(&mut whole[..end].to_vec(), 4096), None, "{end}");
        }
    }
}
