//! What a program under Heliostat hands on to those that it executes, also where it clears their
//! environment (dovecot, cron, sshd, sudo): the stub is preloaded by a variable.
//!
//! The variables are put back into an environment that has neither of the two that are always
//! there, and taken out again before the new program's main function sees it: it finds what it was
//! given. Who takes out LD_PRELOAD alone wants to be without the stub, and is.

use std::cell::RefCell;
use std::ffi::{c_char, CStr, CString};
use std::sync::OnceLock;

use heliostat_abi::listener::SHARE_VARIABLE;
use heliostat_abi::place::{
    DIRECT_VARIABLE, DURABLE_LOG_VARIABLE, DURABLE_VARIABLE, IMAGE_VARIABLE, NETWORK_VARIABLE,
    OFFLOAD_CORES_VARIABLE, OFFLOAD_VARIABLE, PUT_BACK_VARIABLE, SEALED_VARIABLE, SOCKET_VARIABLE,
};
use heliostat_base::sys::{check, raw, Sysno};

use crate::{environment, memory};

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Switches mapped files off.
pub const FILES_VARIABLE: &str = "HELIOSTAT_FILES";
/// What is handed on besides the preload list, where it is set.
const OURS: [&str; 11] = [
    SOCKET_VARIABLE,
    DIRECT_VARIABLE,
    SEALED_VARIABLE,
    IMAGE_VARIABLE,
    FILES_VARIABLE,
    DURABLE_VARIABLE,
    DURABLE_LOG_VARIABLE,
    SHARE_VARIABLE,
    OFFLOAD_VARIABLE,
    OFFLOAD_CORES_VARIABLE,
    NETWORK_VARIABLE,
];
/// Variables of one environment that are looked through; a longer one is left as it is.
const VARIABLES_MAX: usize = 4096;

/// This library's file, and the variables that are put back.
static KEPT: OnceLock<(CString, Vec<CString>)> = OnceLock::new();

thread_local! {
    /// The list that the kernel reads. One for each thread, used again: in a child of vfork it lies
    /// in the parent's memory, which that thread does not use meanwhile.
    static LIST: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Notes what is to be handed on, and takes out what was put back; once, at the start's end.
pub fn remember() {
    if let Some(file) = own_file() {
        let preload = format!("{PRELOAD_VARIABLE}={}", file.to_string_lossy());
        let marker = format!("{PUT_BACK_VARIABLE}=1");
        let line = |name: &&str| std::env::var(name).ok().map(|value| format!("{name}={value}"));
        let lines = [preload, marker].into_iter().chain(OURS.iter().filter_map(line));
        let lines = lines.filter_map(|line| CString::new(line).ok()).collect();
        let _ = KEPT.set((file, lines));
    }
    if std::env::var_os(PUT_BACK_VARIABLE).is_some() {
        for name in OURS.into_iter().chain([PRELOAD_VARIABLE, PUT_BACK_VARIABLE]) {
            // SAFETY: called by a constructor; the program has no thread yet.
            unsafe { environment::remove(name) };
        }
    }
}

fn own_file() -> Option<CString> {
    // SAFETY: all-zero bytes are a valid `Dl_info`.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of this library, and room for what is found.
    let answer = unsafe { libc::dladdr(remember as *const libc::c_void, &mut found) };
    if answer == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a C string of the dynamic linker's, which lives as long as this library.
    Some(unsafe { CStr::from_ptr(found.dli_fname) }.to_owned())
}

/// The environment at `list`, with what is to be handed on put back; nothing where it is there, or
/// where the new program could not load the stub.
pub fn completed(list: u64) -> Option<u64> {
    let (file, lines) = KEPT.get()?;
    LIST.with(|kept| {
        let mut kept = kept.try_borrow_mut().ok()?;
        read(list, &mut kept)?;
        if !is_there(file) {
            return None;
        }
        kept.extend(lines.iter().map(|line| line.as_ptr() as u64));
        kept.push(0);
        Some(kept.as_ptr() as u64)
    })
}

/// Reads the pointers of an environment that has been cleared. Only what the kernel finds readable
/// is looked at, since a child of vfork has signal handlers of its own.
fn read(list: u64, into: &mut Vec<u64>) -> Option<()> {
    into.clear();
    if list == 0 {
        return Some(());
    }
    let mut readable = Readable(u64::MAX);
    loop {
        let at = list + 8 * into.len() as u64;
        if into.len() == VARIABLES_MAX || !readable.at(at) {
            return None;
        }
        // SAFETY: a pointer, which the kernel has just found readable.
        let line = unsafe { memory::read_early::<u64>(at) }.ok()??;
        if line == 0 {
            return Some(());
        }
        if !readable.at(line) {
            return None;
        }
        // SAFETY: readable, and a C string (source: execve(2)), so it is read to its end at most.
        let is_ours = |name: &str| unsafe { begins_with(line, name) };
        if is_ours(PRELOAD_VARIABLE) || is_ours(SOCKET_VARIABLE) {
            return None;
        }
        into.push(line);
    }
}

/// Whether the line at an address sets the variable `name`.
///
/// # Safety
/// A C string lies there.
unsafe fn begins_with(line: u64, name: &str) -> bool {
    let line = line as *const c_char;
    // SAFETY: the comparison ends at the first byte that differs, at the string's end at the latest.
    let at = |place: usize| unsafe { *line.add(place) } as u8;
    let wanted = name.bytes().chain([b'=']);
    wanted.enumerate().all(|(place, byte)| at(place) == byte)
}

/// The page that was asked about last.
struct Readable(u64);

impl Readable {
    const PAGE: u64 = 4096;

    fn at(&mut self, address: u64) -> bool {
        let page = address / Self::PAGE;
        let is_within = address % Self::PAGE <= Self::PAGE - 8;
        if is_within && page == self.0 {
            return true;
        }
        self.0 = page;
        memory::is_readable_by_kernel(address)
    }
}

/// Whether the new program will find the stub: in another root it does not.
fn is_there(file: &CStr) -> bool {
    let args = [file.as_ptr() as usize, libc::R_OK as usize, 0, 0, 0, 0];
    // SAFETY: a C string, and nothing is written.
    check(unsafe { raw(Sysno::access as usize, args) }).is_ok()
}
