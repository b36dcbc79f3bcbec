//! Which bytes of a static program are to be changed, and to what.
//!
//! ```text
//! text                        behind its end, in its last page
//! mov eax,NUMBER -> jmp A     A: mov eax,NUMBER
//! syscall                        syscall
//! B: ...                         cmp eax,-EINTR     (with four bytes: no compiler's)
//!                                je A
//!                                jmp B
//! ```
//!
//! No register but eax and the two that the kernel destroys, no flag that outlives a call, no stack:
//! children on other stacks go the same way.

use std::os::fd::OwnedFd;

use heliostat_base::sys::Sysno;

const PAGE_BYTES: u64 = 4096;
/// Text that is looked through, at most: what is longer is a language's whole runtime, most often
/// Go's, whose handlers all restart calls.
const TEXT_BYTES_MAX: u64 = 8 << 20;
/// A file's kind whose addresses are those in memory (ET_EXEC, elf(5)).
const EXECUTABLE: u8 = 2;
/// Program headers at most.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES: usize = 56;
/// `mov eax,imm32; syscall`.
const CALL_BYTES: usize = 7;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// What comes after a repeated call: cmp eax,imm32; je -14.
pub const REPEATS: [u8; 7] = [0x3d, 0xfc, 0xff, 0xff, 0xff, 0x74, 0xf2];
/// Where its last instruction is, and one in its place that does nothing.
pub const REPETITION_AT: u64 = 5;
pub const GIVE_UP: [u8; 2] = [0x66, 0x90];
/// Bytes of one repetition.
const REPETITION_BYTES: u64 = 5 + 2 + 7 + 5;

/// The calls, those first that matter most where there is room for few.
#[rustfmt::skip]
const CALLS: &[Sysno] = &[
    Sysno::clone, Sysno::fork, Sysno::vfork, Sysno::execve, Sysno::open, Sysno::openat,
    Sysno::stat, Sysno::lstat, Sysno::newfstatat, Sysno::statx, Sysno::access, Sysno::faccessat,
    Sysno::faccessat2, Sysno::readlink, Sysno::readlinkat, Sysno::chdir, Sysno::getcwd,
    Sysno::unlink, Sysno::unlinkat, Sysno::rmdir, Sysno::mkdir, Sysno::mkdirat, Sysno::rename,
    Sysno::renameat, Sysno::renameat2, Sysno::link, Sysno::linkat, Sysno::symlink,
    Sysno::symlinkat, Sysno::chmod, Sysno::fchmod, Sysno::fchmodat, Sysno::fchmodat2,
    Sysno::chown, Sysno::lchown, Sysno::fchown, Sysno::fchownat, Sysno::truncate, Sysno::utime,
    Sysno::utimes, Sysno::utimensat, Sysno::futimesat, Sysno::mknod, Sysno::mknodat, Sysno::statfs,
    Sysno::umask, Sysno::bind, Sysno::listen, Sysno::socket, Sysno::kill, Sysno::tgkill,
    Sysno::creat, Sysno::execveat, Sysno::inotify_add_watch, Sysno::getxattr, Sysno::lgetxattr,
    Sysno::setxattr, Sysno::lsetxattr, Sysno::fsetxattr, Sysno::listxattr, Sysno::llistxattr,
    Sysno::removexattr, Sysno::lremovexattr, Sysno::fremovexattr, Sysno::getpriority,
    Sysno::setpriority, Sysno::prlimit64, Sysno::setrlimit, Sysno::setgroups,
];

/// What is to be written into each process that runs a file. Addresses as the file has them.
#[derive(Debug, PartialEq, Eq)]
pub struct Mending {
    /// Where the file's program headers are in memory; `None` if that is where the file says, and
    /// all else too.
    headers: Option<u64>,
    /// Where the repetitions begin.
    room: u64,
    /// Each `mov`, with the number that it loads.
    sites: Vec<(u64, u32)>,
}

/// A loaded part of the file.
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Mending {
    /// `None` for a program that is not static, or has nothing to be mended.
    pub fn of(file: &OwnedFd) -> Option<Self> {
        let mut head = [0; 64];
        read(file, 0, &mut head)?;
        let (class, machine) = (&head[..6], &head[18..20]);
        // 64 bits, little-endian, x86-64 (elf(5)).
        if class != b"\x7fELF\x02\x01" || machine != [62, 0] {
            return None;
        }
        let (at, count) = (word(&head, 32), usize::from(head[56]));
        if usize::from(head[54]) != HEADER_BYTES || head[57] != 0 || count > HEADERS_MAX {
            return None;
        }
        let mut headers = vec![0; count * HEADER_BYTES];
        read(file, at, &mut headers)?;
        let segments: Vec<_> = headers.chunks_exact(HEADER_BYTES).map(Segment::read).collect();
        if segments.iter().any(|one| one.kind == libc::PT_INTERP) {
            return None;
        }
        let loaded = || segments.iter().filter(|one| one.kind == libc::PT_LOAD);
        let holds = |one: &&Segment| (one.offset..one.offset + one.bytes).contains(&at);
        let first = loaded().find(holds)?;
        let text = loaded().find(|one| one.flags & libc::PF_X != 0)?;
        let is_movable = head[16] != EXECUTABLE;
        Self::of_text(file, text, is_movable.then(|| first.address + (at - first.offset)))
    }

    fn of_text(file: &OwnedFd, text: &Segment, headers: Option<u64>) -> Option<Self> {
        if text.bytes > TEXT_BYTES_MAX {
            return None;
        }
        let mut code = vec![0; text.bytes as usize];
        read(file, text.offset, &mut code)?;
        let room = (text.address + text.bytes).next_multiple_of(16);
        let end = (text.address + text.bytes).next_multiple_of(PAGE_BYTES);
        let fit = end.saturating_sub(room) / REPETITION_BYTES;
        let mut found = sites(&code);
        found.sort_by_key(|(at, number)| (rank(*number), *at));
        found.truncate(fit as usize);
        found.sort_unstable();
        let sites: Vec<_> =
            found.into_iter().map(|(at, number)| (text.address + at as u64, number)).collect();
        (!sites.is_empty()).then_some(Self { headers, room, sites })
    }

    /// How far from the file's addresses a process has it (AT_PHDR, getauxval(3)).
    pub fn base(&self, auxiliary: impl FnOnce() -> Option<Vec<u8>>) -> Option<u64> {
        const HEADERS: u64 = 3;
        let Some(headers) = self.headers else { return Some(0) };
        let auxiliary = auxiliary()?;
        let mut entries = auxiliary.chunks_exact(16);
        let found = entries.find(|entry| word(entry, 0) == HEADERS)?;
        word(found, 8).checked_sub(headers)
    }

    /// Changes a process whose only thread waits for an answer.
    pub fn write(&self, memory: &OwnedFd, base: u64) -> Option<()> {
        let code = self.repetitions();
        let mut before = vec![0; code.len()];
        read(memory, base + self.room, &mut before)?;
        if before.iter().any(|byte| *byte != 0) {
            return None;
        }
        write(memory, base + self.room, &code)?;
        let mut to = self.room;
        // Those of one page together: each page of the text is copied by the first store.
        for near in
            self.sites.chunk_by(|(one, _), (other, _)| one / PAGE_BYTES == other / PAGE_BYTES)
        {
            Self::write_page(memory, base, near, to)?;
            to += near.len() as u64 * REPETITION_BYTES;
        }
        Some(())
    }

    /// Puts jumps to repetitions, which lie at `to` one after the other, into one page.
    fn write_page(memory: &OwnedFd, base: u64, sites: &[(u64, u32)], to: u64) -> Option<()> {
        let ((first, _), (last, _)) = (sites.first()?, sites.last()?);
        let mut code = vec![0; (last - first) as usize + CALL_BYTES];
        read(memory, base + first, &mut code)?;
        for (place, (at, number)) in sites.iter().enumerate() {
            let here = (at - first) as usize;
            if code[here..here + CALL_BYTES] == call(*number) {
                let to = to + place as u64 * REPETITION_BYTES;
                code[here..here + 5].copy_from_slice(&jump(*at, to));
            }
        }
        write(memory, base + first, &code)
    }

    fn repetitions(&self) -> Vec<u8> {
        let mut code = Vec::new();
        for (at, number) in &self.sites {
            code.extend(call(*number));
            code.extend(REPEATS);
            let here = self.room + code.len() as u64;
            code.extend(jump(here, at + CALL_BYTES as u64));
        }
        code
    }
}

impl Segment {
    fn read(header: &[u8]) -> Self {
        let half = |at: usize| word(header, at) as u32;
        let (offset, address) = (word(header, 8), word(header, 16));
        Self { kind: half(0), flags: half(4), offset, address, bytes: word(header, 32) }
    }
}

/// Where the calls are in the text. Not behind a prefix, with which the `mov` is another's.
fn sites(code: &[u8]) -> Vec<(usize, u32)> {
    let numbers = |window: &[u8]| u32::from_le_bytes([window[2], window[3], window[4], window[5]]);
    let is_call = |window: &[u8]| {
        let is_prefix = (0x40..0x50).contains(&window[0]);
        window[6..] == SYSCALL && window[1] == 0xb8 && !is_prefix
    };
    let windows = code.windows(1 + CALL_BYTES).enumerate();
    let found = windows.filter(|(_, window)| is_call(window));
    let calls = found.map(|(at, window)| (at + 1, numbers(window)));
    calls.filter(|(_, number)| rank(*number).is_some()).collect()
}

fn rank(number: u32) -> Option<usize> {
    CALLS.iter().position(|call| *call as u32 == number)
}

fn call(number: u32) -> [u8; CALL_BYTES] {
    let [a, b, c, d] = number.to_le_bytes();
    [0xb8, a, b, c, d, SYSCALL[0], SYSCALL[1]]
}

fn jump(from: u64, to: u64) -> [u8; 5] {
    let [a, b, c, d] = (to.wrapping_sub(from + 5) as u32).to_le_bytes();
    [0xe9, a, b, c, d]
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn read(file: &OwnedFd, at: u64, into: &mut [u8]) -> Option<()> {
    let mut done = 0;
    while done < into.len() {
        let count = rustix::io::pread(file, &mut into[done..], at + done as u64).ok()?;
        done += Some(count).filter(|count| *count > 0)?;
    }
    Some(())
}

fn write(file: &OwnedFd, at: u64, bytes: &[u8]) -> Option<()> {
    (rustix::io::pwrite(file, bytes, at) == Ok(bytes.len())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_and_what_only_looks_like_them_is_not() {
        let mut code = vec![0x90];
        code.extend(call(Sysno::openat as u32));
        // mov r8d,imm32; a call that passes; one whose number is loaded elsewhere.
        code.extend([0x41]);
        code.extend(call(Sysno::openat as u32));
        code.extend(call(Sysno::read as u32));
        code.extend([0x89, 0xd0, 0x0f, 0x05]);
        code.extend(call(Sysno::vfork as u32));
        let wanted = vec![(1, Sysno::openat as u32), (code.len() - 7, Sysno::vfork as u32)];
        assert_eq!(sites(&code), wanted);
    }

    #[test]
    fn a_repetition_goes_back_to_its_own_begin_and_then_behind_the_call() {
        let number = Sysno::clone as u32;
        let mending = Mending { headers: None, room: 0x2000, sites: vec![(0x1000, number)] };
        let code = mending.repetitions();
        assert_eq!(code.len() as u64, REPETITION_BYTES);
        // je: 14 bytes back from its end.
        assert_eq!((code[12], code[13] as i8), (0x74, -14));
        let end = 0x2000 + code.len() as i64;
        let distance = i32::from_le_bytes(code[15..19].try_into().unwrap());
        assert_eq!(end + i64::from(distance), 0x1000 + CALL_BYTES as i64);
        assert_eq!(jump(0x1000, 0x2000), [0xe9, 0xfb, 0x0f, 0, 0]);
    }

    #[test]
    fn programs_that_are_no_static_ones_are_left_alone() {
        for text in ["#!/bin/sh\n", "", "\u{7f}ELF"] {
            let file = tempfile::tempfile().expect("a file");
            std::io::Write::write_all(&mut &file, text.as_bytes()).expect("its text");
            assert_eq!(Mending::of(&file.into()), None);
        }
        let own = std::fs::File::open("/proc/self/exe").expect("this program");
        assert_eq!(Mending::of(&own.into()), None);
    }

    #[test]
    fn a_process_has_its_code_as_far_away_as_its_headers() {
        let mending = Mending { headers: Some(0x40), room: 0, sites: Vec::new() };
        let entries = [[33u64, 5], [3, 0x7000_0040], [0, 0]];
        let bytes: Vec<u8> = entries.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(mending.base(|| Some(bytes.clone())), Some(0x7000_0000));
        assert_eq!(mending.base(|| Some(bytes[..16].to_vec())), None);
        assert_eq!(Mending { headers: None, ..mending }.base(|| None), Some(0));
    }
}
