//! All workers: started, watched, started again, and what becomes of the command when they end.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use heliostat_abi::place::Surroundings;
use heliostat_base::call::poll;
use heliostat_base::process::PidFd;

use super::grants::Reach;
use super::session::WorkerSession;
use super::start::start;
use super::watch::Watcher;
use super::Fault;
use crate::args::coprocessor::CoprocessorArguments;
use crate::say::say;

/// How often ends are looked for where the kernel cannot be asked to tell, in milliseconds.
const LOOK_MS: i32 = 20;
/// What a session's connection shows once nobody serves it any more.
const OVER: i16 = libc::POLLIN | libc::POLLRDHUP;
/// For ever, to poll(2).
const FOR_EVER: i32 = -1;

struct Worker {
    number: u32,
    session: WorkerSession,
    child: Child,
    /// By which its end is heard of; none where the kernel has no descriptor.
    process: Option<PidFd>,
    restarts: u32,
    watcher: Option<Watcher>,
    is_told: bool,
}

/// Runs workers until all have ended; the command's exit status: that of the first that ended otherwise
/// than with 0 and was not started again.
pub(super) fn run(
    arguments: &CoprocessorArguments,
    here: &Surroundings,
    reach: &Reach,
    cores: &[usize],
) -> Result<u8, Fault> {
    // A lone worker is pinned only where a list says so: the kernel knows which core is idle.
    let is_free = arguments.workers < 2 && arguments.cores.is_none();
    let cores: &[usize] = if is_free { &[] } else { cores };
    let mut workers = Vec::new();
    for number in 0..arguments.workers {
        // Those that were started end with this process, should one not be had.
        workers.push(begin(arguments, here, reach, cores, (number, 0))?);
    }
    let again = |worker: Worker| -> Result<Worker, Fault> {
        let next = (worker.number, worker.restarts + 1);
        // Its session ends first, with all that it had open.
        drop(worker);
        begin(arguments, here, reach, cores, next)
    };
    let mut status = 0;
    while !workers.is_empty() {
        wait(&workers);
        for worker in std::mem::take(&mut workers) {
            match look_after(worker, arguments.restart, again) {
                Ok(worker) => workers.push(worker),
                Err(code) if status == 0 => status = code,
                Err(_) => {}
            }
        }
    }
    Ok(status)
}

/// Looks what has become of a worker: it goes on, or is started again up to so often; or its end, as an
/// exit status. One that cannot be started again has ended, and leaves the others as they are.
fn look_after(
    mut worker: Worker,
    restarts_max: u32,
    again: impl Fn(Worker) -> Result<Worker, Fault>,
) -> Result<Worker, u8> {
    tell_if_over(&mut worker);
    let number = worker.number;
    let code = match worker.child.try_wait() {
        Ok(None) => return Ok(worker),
        Ok(Some(ended)) if code_of(ended) == 0 => return Err(0),
        Ok(Some(ended)) => {
            say(format_args!("worker {number} ended with {}", in_words(ended)));
            code_of(ended)
        }
        // Not met: nobody else waits for it.
        Err(error) => {
            say(format_args!("worker {number}: {error}"));
            return Err(1);
        }
    };
    if worker.restarts >= restarts_max {
        return Err(code);
    }
    again(worker).map_err(|fault| {
        say(format_args!("worker {number} is not started again: {fault}"));
        code
    })
}

fn begin(
    arguments: &CoprocessorArguments,
    here: &Surroundings,
    reach: &Reach,
    cores: &[usize],
    (number, restarts): (u32, u32),
) -> Result<Worker, Fault> {
    let session = WorkerSession::open(here, reach, arguments.window, (number, arguments.workers))?;
    let core = cores.get(number as usize % cores.len().max(1)).copied();
    let watcher = match arguments.watch {
        true => Some(Watcher::start(&[&session.files, &session.sockets])?),
        false => None,
    };
    let child = start(arguments, &session, core)?;
    // Nobody else waits for it, so that the number is its own.
    let process = i32::try_from(child.id()).ok().and_then(|pid| PidFd::open(pid).ok());
    Ok(Worker { number, session, child, process, restarts, watcher, is_told: false })
}

/// Waits until a worker has ended, or its session.
fn wait(workers: &[Worker]) {
    let asked = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut all = Vec::with_capacity(2 * workers.len());
    for worker in workers {
        let process = worker.process.iter().map(|process| asked(process.as_raw_fd(), libc::POLLIN));
        all.extend(process);
        if !worker.is_told {
            all.push(asked(worker.session.connection(), OVER));
        }
    }
    let are_heard = workers.iter().all(|worker| worker.process.is_some());
    // Where it fails, or is interrupted, they are looked at, and it is asked again.
    let _ = poll(&mut all, if are_heard { FOR_EVER } else { LOOK_MS });
}

/// Once nobody serves a worker's session any more, it is told: what it waits for ends.
fn tell_if_over(worker: &mut Worker) {
    let fd = worker.session.connection();
    let mut asked = [libc::pollfd { fd, events: OVER, revents: 0 }];
    let is_over = poll(&mut asked, 0).is_ok_and(|count| count > 0);
    if is_over && !worker.is_told {
        worker.is_told = true;
        worker.session.end(libc::ESHUTDOWN);
        say(format_args!("worker {}: the control plane has ended its session", worker.number));
    }
}

/// As a shell has it: the exit status, or 128 and the signal.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(1)).unwrap_or(1)
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It does not outlive its memory's keeper. One that has ended is not found.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.watcher.take());
    }
}
