//! Starts one worker: the descriptors that it inherits, the words that it is started with.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::{Child, Command};

use heliostat_abi::lean::VARIABLE;
use heliostat_base::fd::OwnedFd;
use rustix::io::{fcntl_setfd, FdFlags};

use super::session::WorkerSession;
use super::Fault;
use crate::args::coprocessor::CoprocessorArguments;

/// Starts a worker on a core, or on any.
///
/// # Errors
/// The system's answer.
pub(super) fn start(
    arguments: &CoprocessorArguments,
    session: &WorkerSession,
    core: Option<usize>,
) -> Result<Child, Fault> {
    let own = std::env::current_exe().map_err(|error| Fault::System("this program", error))?;
    let numbers = [&session.window, &session.files, &session.sockets];
    let text = numbers.map(|fd| fd.as_raw_fd().to_string()).join(",");
    let mut command = Command::new(&own);
    command.args(["coprocessor", "become", "--parent", &std::process::id().to_string()]);
    if let Some(core) = core {
        command.args(["--core", &core.to_string()]);
    }
    command.arg("--");
    if !arguments.unsealed {
        command.arg(&own).args(sealed_words(arguments, &text));
    }
    command.args(&arguments.program).env(VARIABLE, &text);
    // One at a time: what is inherited now is this worker's and nobody else's.
    numbers.into_iter().try_for_each(|fd| set_inherited(fd, true))?;
    let child = command.spawn();
    numbers.into_iter().try_for_each(|fd| set_inherited(fd, false))?;
    child.map_err(|error| Fault::System("a worker", error))
}

/// Behind the seal it may reach its own file and what that loads, and be told where its memory is.
fn sealed_words(arguments: &CoprocessorArguments, text: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["run".into()];
    if let Some(socket) = &arguments.place.socket {
        words.extend(["--socket".into(), socket.into()]);
    }
    words.extend(["--no-direct".into(), "--sealed".into()]);
    for number in text.split(',') {
        words.extend(["--keep".into(), number.into()]);
    }
    words.extend(["--env".into(), format!("{VARIABLE}={text}").into()]);
    for grant in &arguments.grant {
        words.extend(["--grant".into(), grant.into()]);
    }
    words.push("--".into());
    words
}

fn set_inherited(fd: &OwnedFd, is_inherited: bool) -> Result<(), Fault> {
    let flags = if is_inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    let fd = borrowed(fd);
    fcntl_setfd(fd, flags).map_err(|errno| Fault::System("a worker's memory", errno.into()))
}

fn borrowed(fd: &OwnedFd) -> BorrowedFd<'_> {
    use std::os::fd::AsFd;
    fd.as_fd()
}
