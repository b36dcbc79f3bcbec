//! What kind of program is about to run, and whether the stub can be loaded into it.
//!
//! Only the first bytes of the file are read. A script is judged by its interpreter, as the
//! kernel runs it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes read of a file: header, program headers and the loader's name lie there.
const HEAD_BYTES: u64 = 8192;
/// Scripts whose interpreter is a script, followed this deep (source: the kernel's own limit).
const SCRIPTS_MAX: usize = 4;
/// What runs a script that names no interpreter.
const SHELL: &str = "/bin/sh";
const EM_X86_64: u16 = 62;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
/// The loader that this build's stub needs.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Why the stub cannot cover a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Uncovered {
    /// It has no loader that would load the stub.
    Static,
    /// The kernel runs it with another's rights, so its loader ignores the stub.
    Privileged,
    /// It is of another processor or word size.
    Machine,
    /// Its loader belongs to another C library.
    Loader(String),
    /// Its runtime makes system calls by instructions of its own, which nobody catches.
    OwnCalls,
    /// It is a script whose interpreter is a script, and so on.
    Nested,
}

impl Uncovered {
    /// True when the environment of the stub would disturb the program instead of being ignored.
    pub fn must_not_preload(&self) -> bool {
        matches!(self, Self::Machine | Self::Loader(_))
    }
}

impl fmt::Display for Uncovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => write!(f, "it is statically linked, so no stub can be loaded into it"),
            Self::Privileged => write!(
                f,
                "it runs with another user's rights (set-user-id, set-group-id or file \
                 capabilities), and its loader ignores preloaded libraries"
            ),
            Self::Machine => write!(f, "it is of another architecture than x86-64"),
            Self::Loader(found) => write!(f, "its loader is {found}, the stub is made for glibc"),
            Self::OwnCalls => {
                write!(f, "it is a Go program, whose runtime makes system calls without libc")
            }
            Self::Nested => {
                write!(f, "its interpreter is a script more than {SCRIPTS_MAX} times over")
            }
        }
    }
}

/// Why a program cannot be run at all; the status is what a shell would give.
#[derive(Debug)]
pub enum Unrunnable {
    /// There is none of this name.
    NotFound,
    /// There is one that may not be executed.
    NotExecutable(PathBuf),
    /// Whether there is one cannot be told: a folder on the way may not be passed, or is none.
    Unreachable(PathBuf, io::Error),
}

impl Unrunnable {
    /// Exit status by the convention of shells.
    pub fn status(&self) -> u8 {
        match self {
            Self::NotFound => 127,
            Self::NotExecutable(_) | Self::Unreachable(..) => 126,
        }
    }
}

impl fmt::Display for Unrunnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "command not found"),
            Self::NotExecutable(path) => write!(f, "{} is not executable", path.display()),
            Self::Unreachable(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

/// Returns the file that execvp(3) would run for `name`; where it would run none, the error tells
/// whether there is none or whether it may not be reached.
pub fn find(name: &OsStr, path: &OsStr) -> Result<PathBuf, Unrunnable> {
    if name.as_bytes().contains(&b'/') {
        let given = PathBuf::from(name);
        return match fs::metadata(&given) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unrunnable::NotFound),
            Err(error) => Err(Unrunnable::Unreachable(given, error)),
            Ok(_) if is_executable(&given) => Ok(given),
            Ok(_) => Err(Unrunnable::NotExecutable(given)),
        };
    }
    let mut refused = None;
    for folder in std::env::split_paths(path).filter(|_| !name.is_empty()) {
        let candidate = folder.join(name);
        if is_executable(&candidate) {
            return Ok(candidate);
        }
        match fs::metadata(&candidate) {
            Ok(found) if found.is_file() => {
                refused.get_or_insert(Unrunnable::NotExecutable(candidate));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                refused.get_or_insert(Unrunnable::Unreachable(candidate, error));
            }
            _ => {}
        }
    }
    Err(refused.unwrap_or(Unrunnable::NotFound))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Whether the stub can be loaded into the program at `path`.
pub fn judge(path: &Path) -> Result<(), Uncovered> {
    judge_deep(path, SCRIPTS_MAX)
}

fn judge_deep(path: &Path, scripts_left: usize) -> Result<(), Uncovered> {
    let Some(head) = read_head(path) else {
        // Executable but not readable: nothing can be said, so the loader has the last word.
        return Ok(());
    };
    if !head.starts_with(b"\x7fELF") {
        // The kernel ignores the rights of a script, so only its interpreter counts. A script
        // that names none is run by the shell.
        let interpreter = script_interpreter(&head).unwrap_or_else(|| SHELL.into());
        return match scripts_left {
            0 => Err(Uncovered::Nested),
            _ => judge_deep(&interpreter, scripts_left - 1),
        };
    }
    judge_elf(&head)?;
    if is_privileged(path) {
        return Err(Uncovered::Privileged);
    }
    Ok(())
}

fn read_head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| *byte == b' ' || *byte == b'\t').find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(word.to_vec())))
}

/// Class, machine and loader (source: elf(5)).
fn judge_elf(head: &[u8]) -> Result<(), Uncovered> {
    let is_64_bit_little = head.get(4..6) == Some(&[2, 1]);
    if !is_64_bit_little || number::<2>(head, 18) != Some(u64::from(EM_X86_64)) {
        return Err(Uncovered::Machine);
    }
    let loader = loader_of(head).ok_or(Uncovered::Static)?;
    match loader.rsplit('/').next() {
        Some(LOADER) if is_go(head) => Err(Uncovered::OwnCalls),
        Some(LOADER) => Ok(()),
        _ => Err(Uncovered::Loader(loader)),
    }
}

/// Go's linker writes a note of its own (source: cmd/internal/buildid of Go).
fn is_go(head: &[u8]) -> bool {
    segments(head, PT_NOTE).any(|part| part.windows(8).any(|note| note == b"\x04\0\0\0Go\0\0"))
}

/// What lies in the segments of a kind, those that are within the head.
fn segments(head: &[u8], kind: u32) -> impl Iterator<Item = &[u8]> {
    let start = number::<8>(head, 32).unwrap_or(0) as usize;
    let size = number::<2>(head, 54).unwrap_or(0) as usize;
    let count = number::<2>(head, 56).unwrap_or(0) as usize;
    (0..count).filter_map(move |place| {
        let at = start.saturating_add(place * size);
        let is_it = number::<4>(head, at)? == u64::from(kind);
        let offset = number::<8>(head, at.checked_add(8)?)? as usize;
        let length = number::<8>(head, at.checked_add(32)?)? as usize;
        head.get(offset..offset.checked_add(length)?).filter(|_| is_it)
    })
}

fn loader_of(head: &[u8]) -> Option<String> {
    let name = segments(head, PT_INTERP).next()?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

fn number<const BYTES: usize>(head: &[u8], at: usize) -> Option<u64> {
    let part = head.get(at..at.checked_add(BYTES)?)?;
    Some(part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Set-user-id, set-group-id or capabilities that would change who the program is.
fn is_privileged(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    let other_user =
        found.mode() & 0o4000 != 0 && found.uid() != rustix::process::geteuid().as_raw();
    let other_group =
        found.mode() & 0o2010 == 0o2010 && found.gid() != rustix::process::getegid().as_raw();
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut [0u8; 64])
        .is_ok_and(|length| length > 0);
    let is_root = rustix::process::geteuid().is_root();
    other_user || other_group || (has_capabilities && !is_root)
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
