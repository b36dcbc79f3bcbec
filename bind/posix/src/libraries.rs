//! What makes system calls without libc: other libraries, and the program itself.
//!
//! Their `syscall` instructions are caught as libc's are. Where one cannot be, and might touch a
//! descriptor, the program is native as a whole: on the descriptor of a direct stream such a call
//! would reach the shadow, and the peer take it for a breach of the protocol.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use heliostat_abi::code::Native;
use heliostat_abi::place::{EXAMINER_VARIABLE, EXAMINE_COMMAND};
use heliostat_abi::session::report::Counter;
use heliostat_base::process::run_unseen;
use heliostat_base::sys::Sysno;
use heliostat_interpose::{install_libraries, on_loading, Left, Reason, Request, Threads, Why};
use heliostat_stub_posix::{is_enabled, report, stay_native};

use crate::{dispatch, durable, spawn};

/// What the examiner is told of the surroundings: where the cache is, and nothing that would bring
/// it under Heliostat.
const PASSED_ON: [&str; 2] = ["HOME", "XDG_CACHE_HOME"];
/// Calls that the stub can do without: what they do it finds out by itself, or need not know.
const DISPENSABLE: [Sysno; 3] = [Sysno::rt_sigaction, Sysno::rt_sigprocmask, Sysno::exit_group];

/// What was done to files other than libc.
#[derive(Debug, Default)]
pub struct Others {
    /// Sites that are caught.
    pub caught: usize,
    /// In how many files.
    pub files: usize,
    /// What is not caught and might matter, in words; the first of these.
    pub left: Option<String>,
}

/// Patches all that is loaded by now. What cannot be caught is counted, and may make the program
/// native.
pub fn catch(request: &Request) -> Others {
    let done = install_libraries(request, &examine);
    report::count_many(Counter::Uncaught, done.left.len() as u64);
    // Nobody examines for a sealed program, and what nobody has examined says nothing there.
    let matters = |left: &&Left| match crate::sealed::is_sealed() {
        true => is_certain(&left.why),
        false => is_weighty(&left.why),
    };
    note_durable(&done.left);
    let weighty = done.left.iter().find(matters);
    if done.left.iter().any(|left| is_certain(&left.why)) {
        stay_native(Native::OwnCalls);
    }
    Others { caught: done.patched, files: done.files, left: weighty.map(in_words) }
}

/// How the sites of libraries that are loaded later are chosen, and what they reach.
static LATER: OnceLock<Request<'static>> = OnceLock::new();

/// Has libraries that are loaded later patched too, before anything of them runs.
pub fn catch_later(request: Request<'static>) {
    let threads = request.threads;
    let later = Request { threads: Threads::HeldByCaller, ..request };
    if LATER.set(later).is_ok() && on_loading(on_loaded, threads).is_err() {
        report::count(Counter::Uncaught);
    }
}

/// In the dynamic linker, which has mapped something, or unmapped it.
extern "C" fn on_loaded() {
    let Some(request) = LATER.get() else { return };
    let done = install_libraries(request, &examine);
    report::count_many(Counter::Uncaught, done.left.len() as u64);
    note_durable(&done.left);
    if done.left.iter().any(|left| is_certain(&left.why)) && is_enabled() {
        spawn::go_native(Native::OwnCalls);
    }
}

/// Whether it is known to make calls, or to be of a kind that cannot be examined, and these could
/// touch what the stub keeps.
fn is_certain(why: &Why) -> bool {
    is_weighty(why) && !matches!(why, Why::Unexamined { is_known: false })
}

/// What is not caught may let something out.
fn note_durable(left: &[Left]) {
    durable::judge_uncaught(left.iter().filter_map(|left| match left.why {
        Why::Site(_, Reason::Forbidden) => None,
        Why::Site(number, _) => Some(number),
        Why::Unexamined { .. } | Why::Failed(_) => Some(None),
    }));
}

/// Whether a call there could touch what the stub keeps.
fn is_weighty(why: &Why) -> bool {
    match why {
        Why::Site(_, Reason::Forbidden) => false,
        // Caught for durable files only.
        Why::Site(number @ Some(_), _) if !dispatch::is_caught(*number) => false,
        Why::Site(Some(number), _) => DISPENSABLE.iter().all(|known| *known as u32 != *number),
        Why::Site(None, _) | Why::Unexamined { .. } | Why::Failed(_) => true,
    }
}

fn in_words(left: &Left) -> String {
    let path = left.path.display();
    match &left.why {
        Why::Site(Some(number), reason) => {
            format!("{path} makes system call {number} by itself, which is not caught: {reason}")
        }
        Why::Site(None, reason) => {
            format!("{path} makes system calls by itself that are not caught: {reason}")
        }
        Why::Unexamined { .. } => {
            format!("{path} may make system calls by itself: it could not be examined")
        }
        Why::Failed(error) => format!("{path} makes system calls by itself: {error}"),
    }
}

/// Has the command line look into files that are new. Without it they stay unknown.
fn examine(files: &[PathBuf]) {
    let Some(examiner) = std::env::var_os(EXAMINER_VARIABLE) else { return };
    // A sealed program may start what its policy grants only, and write no cache.
    if crate::sealed::is_sealed() {
        return;
    }
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let name = |file: &PathBuf| match file.as_os_str() == OsStr::new("/proc/self/exe") {
        true => own.clone().into_os_string(),
        false => file.clone().into_os_string(),
    };
    let command = [examiner.clone(), EXAMINE_COMMAND.into(), "--".into()];
    let arguments = strings(command.into_iter().chain(files.iter().map(name)));
    let environment = strings(PASSED_ON.iter().filter_map(|known| {
        let mut variable = OsString::from(*known);
        variable.push("=");
        variable.push(std::env::var_os(known)?);
        Some(variable)
    }));
    let pointers = |strings: &[CString]| {
        let each = strings.iter().map(|string| string.as_ptr());
        each.chain([ptr::null()]).collect::<Vec<_>>()
    };
    let Ok(program) = CString::new(examiner.as_bytes()) else { return };
    // SAFETY: C strings that live until it returns, in lists that end with null.
    let _ = unsafe { run_unseen(program.as_ptr(), &pointers(&arguments), &pointers(&environment)) };
}

/// No string of the environment, and no path, holds a zero byte.
fn strings(words: impl Iterator<Item = OsString>) -> Vec<CString> {
    words.filter_map(|word| CString::new(word.as_bytes()).ok()).collect()
}
