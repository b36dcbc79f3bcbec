//! The constructor: runs before main, patches libc once, and never fails the program.

use std::fmt::Display;

use heliostat_abi::place::SEALED_VARIABLE;
use heliostat_abi::report::Counter;
use heliostat_interpose::{install, Request, Threads};
use heliostat_stub::{enable, file, process, report, session};

use crate::{dispatch, fault, spawn};

#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let Ok(socket) = std::env::var("HELIOSTAT_SOCKET") else { return };
    process::adopt();
    heliostat_base::process::find_thread_note();
    session::configure(socket, program_name());
    enable(std::env::var_os("HELIOSTAT_DIRECT").is_none_or(|value| value != "0"));
    let request = Request {
        filter: match std::env::var_os(SEALED_VARIABLE) {
            Some(_) => dispatch::is_caught_sealed,
            None => dispatch::is_caught,
        },
        hook: dispatch::hook,
        before_spawn: Some(spawn::before_spawn),
        list: None,
        threads: Threads::MustBeAlone,
    };
    match install(&request) {
        Ok(done) => {
            if std::env::var_os("HELIOSTAT_FILES").is_none_or(|value| value != "0") {
                file::enable(fault::install);
            }
            report::count_many(Counter::Uncaught, done.unpatchable.len() as u64);
            say(format_args!("{} sites caught", done.patched));
        }
        Err(error) => {
            enable(false);
            say(format_args!("this program runs natively: {error}"));
        }
    }
}

/// Only when asked: a library must not write into its program's output.
fn say(what: impl Display) {
    if std::env::var_os("HELIOSTAT_VERBOSE").is_some() {
        eprintln!("heliostat: {what}");
    }
}

/// As /proc/self/comm has it, without a path to be asked about.
fn program_name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes 16 bytes at most, the NUL included (source: prctl(2)).
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}
