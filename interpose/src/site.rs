//! A site: one `syscall` instruction and the window of text that may be replaced.
//!
//! ```text
//!   start                 syscall_at          end (length)
//!   | before: whole insns | syscall | after: whole insns |
//!   | jmp rel32 (5 bytes) ...                            |
//! ```
//! If `before` has 5 bytes or more, the `syscall` instruction survives the patch: the trampoline
//! can go back to it to make the real call, with the stack and all registers as they were. This
//! is the common case, and the reason why cancellation, clone and backtraces keep working.

use std::fmt;

/// Length of `jmp rel32`, the least a window must hold.
pub const JUMP_BYTES: usize = 5;
/// Length of the `syscall` instruction (0f 05).
pub const SYSCALL_BYTES: usize = 2;
/// The longest window kept: an instruction has at most 15 bytes, so four bytes short of a jump on
/// either side of a `syscall` need at most 15 + 2 + 15.
pub const WINDOW_BYTES_MAX: usize = 32;
/// The greatest system-call number believed (the kernel's table ends below 500; x32 bits are not
/// used by a 64-bit libc).
pub const NUMBER_MAX: u32 = 1023;
/// The longest build-id kept; linkers write 8 to 20 bytes (source: ld(1), --build-id).
pub const BUILD_ID_BYTES_MAX: usize = 32;
/// The most sites in one list: glibc has 526, a file of 4096 is refused beyond doubt.
pub const SITES_MAX: usize = 4096;

/// System calls whose instruction must be the one the kernel and the unwinder expect to see.
pub mod number {
    /// Sets a signal's handler; seen in order to keep thread cancellation out of the hook.
    pub const RT_SIGACTION: u32 = 13;
    /// Returns from a signal handler; its instructions are a signature for unwinders.
    pub const RT_SIGRETURN: u32 = 15;
    /// Creates a process or thread; fork-like unless `CLONE_VM` is among its flags.
    pub const CLONE: u32 = 56;
    /// Creates a child on the parent's own stack.
    pub const VFORK: u32 = 58;
    /// Creates a process or thread from a structure in memory.
    pub const CLONE3: u32 = 435;
    /// Clone flag: the child shares the parent's memory (source: clone(2)).
    pub const CLONE_VM: u32 = 0x100;
}

/// The linker's fingerprint of a file's content, by which site lists are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BuildId {
    length: u8,
    bytes: [u8; BUILD_ID_BYTES_MAX],
}

impl BuildId {
    /// Takes 1 to [`BUILD_ID_BYTES_MAX`] bytes; anything else is not a build-id.
    pub fn new(id: &[u8]) -> Option<BuildId> {
        if id.is_empty() || id.len() > BUILD_ID_BYTES_MAX {
            return None;
        }
        let mut bytes = [0; BUILD_ID_BYTES_MAX];
        bytes[..id.len()].copy_from_slice(id);
        Some(BuildId { length: id.len() as u8, bytes })
    }

    /// What stands for the build-id of a file that has none: which file it is, and its last change.
    /// Longer than any that a linker writes.
    pub fn of_file(device: u64, inode: u64, bytes: u64, changed_ns: u64) -> BuildId {
        let mut id = [0; BUILD_ID_BYTES_MAX];
        for (place, word) in [device, inode, bytes, changed_ns].iter().enumerate() {
            id[place * 8..place * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        BuildId { length: BUILD_ID_BYTES_MAX as u8, bytes: id }
    }

    /// The bytes as the linker wrote them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Why a site takes no jump. Numbered by hand: the values are in the file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Reason {
    /// rt_sigreturn, vfork or clone3: see [`number`].
    Forbidden = 1,
    /// No five bytes of straight-line instructions around it without a branch target inside.
    NoRoom = 2,
    /// The instructions around it cannot run at another address.
    NotMovable = 3,
    /// The number comes from elsewhere by a branch, so that only part of the calls would be seen.
    EnteredByBranch = 4,
    /// That it is code, and which branches lead there, cannot be proved (never in libc's list).
    Unproven = 5,
}

impl Reason {
    /// The reason with this code in a file.
    pub fn from_code(code: u8) -> Option<Reason> {
        match code {
            1 => Some(Reason::Forbidden),
            2 => Some(Reason::NoRoom),
            3 => Some(Reason::NotMovable),
            4 => Some(Reason::EnteredByBranch),
            5 => Some(Reason::Unproven),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Forbidden => "must stay where it is (rt_sigreturn, vfork, clone3)",
            Reason::NoRoom => "no room for a jump",
            Reason::NotMovable => "its neighbours cannot be moved",
            Reason::EnteredByBranch => "reached by a branch past its window",
            Reason::Unproven => "what leads there cannot be proved",
        })
    }
}

/// A 32-bit displacement inside a window that is relative to the address after its instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Offset of the displacement in the window.
    pub field_at: u8,
    /// Offset of the first byte after the instruction.
    pub insn_end: u8,
}

/// The most relocations in one window.
pub const RELOCATIONS_MAX: usize = 2;

/// One `syscall` instruction with its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// Offset of the window's first byte from the file's load address.
    pub start: u32,
    /// The number, where the code before it tells; `None` e.g. in libc's `syscall()`.
    pub number: Option<u32>,
    /// Whether the code around may keep values in xmm registers across the call.
    pub save_xmm: bool,
    /// Offset of the `syscall` instruction in the window.
    pub syscall_at: u8,
    /// Length of the window.
    pub length: u8,
    /// Why it cannot be patched, if so.
    pub refusal: Option<Reason>,
    /// Displacements to correct when the window's instructions run elsewhere.
    pub relocations: [Option<Relocation>; RELOCATIONS_MAX],
    /// The bytes found; only the first `length` count, the rest is zero.
    pub original: [u8; WINDOW_BYTES_MAX],
}

impl Site {
    /// Offset of the `syscall` instruction from the file's load address.
    pub fn syscall_offset(&self) -> u32 {
        self.start + u32::from(self.syscall_at)
    }

    /// Whether the `syscall` instruction is still there after patching.
    pub fn keeps_syscall(&self) -> bool {
        self.syscall_at as usize >= JUMP_BYTES
    }

    /// The window's bytes.
    pub fn window(&self) -> &[u8] {
        &self.original[..(self.length as usize).min(WINDOW_BYTES_MAX)]
    }
}

/// All sites of one file, in order of address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteList {
    /// Which file.
    pub build_id: BuildId,
    /// Offset of the executable segment from the load address.
    pub text_start: u64,
    /// Its length in memory.
    pub text_bytes: u64,
    /// The sites, by ascending `start`, none overlapping.
    pub sites: Vec<Site>,
}
