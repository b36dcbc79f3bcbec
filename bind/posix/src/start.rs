//! The constructor: runs before main, patches libc once, and never fails the program.

use std::fmt::Display;

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
        filter: dispatch::is_caught,
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

fn program_name() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_string()
}
