//! `heliostat run --sealed`: the process in front of a sealed program.
//!
//! Three processes: this one stands where the program would stand, passes signals on and ends as
//! the program ends; the supervisor answers the program's calls until its last process is gone,
//! daemons included; the program. Whichever of the first two dies, the sealed ones are killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use heliostat_backend_seal::{fork_telling, Fork, Hearer, Teller};
use heliostat_control::policy::{PathGrant, Policy};
use heliostat_supervisor::{seal, tree, Identities, Plan, Sealed};
use rustix::process::{kill_process, pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use crate::image::{self, Environment};
use crate::say::say;
use crate::sealing;

/// Exit status when the command itself fails, as env(1) has it.
const OWN_FAILURE: u8 = 125;

/// What the supervisor tells, at any moment, when the program is refused to become another user or
/// group: neither a process, a count nor a status.
const SAME_IDENTITY: i32 = -1;

/// What is to be run.
pub struct Program<'a> {
    /// The file.
    pub file: &'a Path,
    /// Its arguments, its name first.
    pub arguments: &'a [OsString],
    /// Its environment.
    pub environment: &'a Environment,
}

/// How it is sealed.
pub struct Seal {
    /// What the program may do.
    pub policy: Policy,
    /// What it gets besides: its own file, the stub.
    pub besides: Vec<PathGrant>,
    /// A folder that is private to this user.
    pub folder: PathBuf,
    /// The control plane's socket.
    pub control: Option<PathBuf>,
    /// Where the policy is written that it turns out to need.
    pub trace: Option<Trace>,
    /// Users that the program may become.
    pub identities: Option<Identities>,
    /// Names of variables that are set outside, and that the program is not told.
    pub untold: Vec<String>,
    /// Descriptors that the program is handed.
    pub kept: Vec<i32>,
    /// Says refusals on standard error.
    pub tells: bool,
}

/// A file for the policy that a traced program needs, and somebody to tell if it cannot be written:
/// the supervisor's own standard error is closed by then.
pub struct Trace {
    path: PathBuf,
    file: File,
    errors: File,
}

impl Trace {
    /// Opens it before the program runs, so that no long run is in vain.
    ///
    /// # Errors
    /// Those of open(2), with the flag and the path.
    pub fn create(path: &Path) -> Result<Self, String> {
        let said = |error: std::io::Error| format!("--trace-policy {}: {error}", path.display());
        let file = File::create(path).map_err(said)?;
        let errors = std::io::stderr().as_fd().try_clone_to_owned().map_err(said)?;
        Ok(Self { path: path.to_owned(), file, errors: errors.into() })
    }

    /// Replaces what is in it, if it is something else: whoever waited for the command reads it
    /// while the supervisor still waits for daemons.
    fn write(&self, text: &str) -> std::io::Result<()> {
        if std::fs::read(&self.path).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }
}

/// Runs the program sealed, and ends as it ends.
pub fn run(program: &Program<'_>, seal: Seal) -> ExitCode {
    tree::adopt_orphans();
    let front = rustix::process::getpid();
    match fork_telling() {
        Err(error) => failure(&error),
        Ok(Fork::Child(teller)) => {
            let Seal { policy, besides, folder, control, trace, identities, untold, kept, tells } =
                seal;
            let traces = trace.is_some();
            let teller = Arc::new(teller);
            let alarm = teller.clone();
            let tells_identity = Box::new(move || alarm.tell(SAME_IDENTITY));
            let plan = Plan {
                policy,
                besides,
                folder: &folder,
                control,
                untold,
                kept,
                identities,
                traces,
                tells,
                tells_identity,
            };
            supervise(program, plan, trace.as_ref(), &teller, front);
            std::process::exit(0)
        }
        Ok(Fork::Parent(_, hearer)) => stand_in_front(&hearer),
    }
}

fn failure(why: &dyn std::fmt::Display) -> ExitCode {
    say(format_args!("the program is not run: {why}"));
    ExitCode::from(OWN_FAILURE)
}

/// The supervisor's process: tells the program's number, then how much it was refused and how it
/// ended; ends after the last of its processes.
fn supervise(
    program: &Program<'_>,
    plan: Plan<'_>,
    trace: Option<&Trace>,
    teller: &Teller,
    front: Pid,
) {
    tree::adopt_orphans();
    // The process in front has died unless it waits for us.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    if rustix::process::getppid() != Some(front) {
        return;
    }
    let (tells, system) = (plan.tells, plan.policy.system);
    let (writable, traces) = (plan.policy.grants.clone(), plan.traces);
    let become_program = |temporary: Option<&Path>| {
        // As it will be when it is sealed.
        let temporary = temporary.or_else(|| traces.then(|| Path::new("/tmp")));
        let mut environment = program.environment.clone();
        if let Some(own) = temporary {
            sealing::lead_to_temporary(&mut environment, &writable, own);
        }
        let error = image::become_program(program.file, program.arguments, &environment);
        let is_bare = !system && error.kind() == std::io::ErrorKind::PermissionDenied;
        let hint =
            if is_bare { "; without the system grants it needs its loader granted" } else { "" };
        say(format_args!("{}: {error}{hint}", program.file.display()));
        if error.kind() == std::io::ErrorKind::NotFound {
            127
        } else {
            126
        }
    };
    let sealed = match seal(plan, become_program) {
        Ok(sealed) => sealed,
        Err(error) => {
            say(format_args!("the program is not run: {error}"));
            return teller.tell(-i32::from(OWN_FAILURE));
        }
    };
    teller.tell(sealed.child);
    leave_terminal(tells);
    let clean = sealed.cleaner();
    kill_all_when_told(sealed.cleaner());
    tree::wait_for_all(|child, status| {
        if child == sealed.child {
            // From now on nobody in front is missed.
            let _ = rustix::process::set_parent_process_death_signal(None);
            write_trace(program, &sealed, trace);
            // What was said one by one need not be counted.
            teller.tell(if tells { 0 } else { sealed.refusals() });
            teller.tell(status);
        }
    });
    // Daemons may have asked for more.
    write_trace(program, &sealed, trace);
    clean();
}

/// Writes the policy that a traced program needs.
fn write_trace(program: &Program<'_>, sealed: &Sealed, trace: Option<&Trace>) {
    let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
    let (Some(trace), Some(text)) = (trace, sealed.traced(&words.join(" "))) else { return };
    if let Err(error) = trace.write(&text) {
        let line = format!("heliostat: --trace-policy {}: {error}\n", trace.path.display());
        let _ = (&trace.errors).write_all(line.as_bytes());
    }
}

/// Signals of the terminal are the program's, and so are the ends of its pipes. The session stays
/// the program's own, as /dev/tty is opened here on its behalf.
fn leave_terminal(keeps_error: bool) {
    // Refusals are said from the background.
    image::ignore_terminal_output();
    let _ = rustix::process::setpgid(None, None);
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else {
        return;
    };
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    if !keeps_error {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// SIGTERM, also that of the kernel for a parent that died, ends the sealed program.
fn kill_all_when_told(clean: impl Fn() + Send + 'static) {
    let Ok(mut signals) = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM])
    else {
        return;
    };
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            tree::kill_all();
            clean();
            std::process::exit(i32::from(OWN_FAILURE));
        }
    });
}

/// The process in front.
fn stand_in_front(hearer: &Hearer) -> ExitCode {
    let Some(child) = next(hearer).filter(|number| *number > 0) else {
        return ExitCode::from(OWN_FAILURE);
    };
    pass_signals_on(child);
    let (Some(refusals), Some(status)) = (next(hearer), next(hearer)) else {
        tree::kill_all();
        return failure(&"its supervisor was killed, and so are its processes");
    };
    if status != 0 {
        close_with(refusals);
    }
    end_as(status)
}

/// The next number that the supervisor tells; what may come at any moment is said.
fn next(hearer: &Hearer) -> Option<i32> {
    loop {
        let number = hearer.hear()?;
        if number != SAME_IDENTITY {
            return Some(number);
        }
        say(format_args!(
            "the program is refused to become another user or group, and may not work (a server's \
             workers end): start it as that user, or tell it to stay who it is"
        ));
    }
}

/// The last line about a program that ended with an error, or by a signal, and was refused something:
/// that may be why, and nobody has been told.
fn close_with(refusals: i32) {
    match refusals {
        0 => {}
        1 => say(format_args!("1 refusal; --verbose names it")),
        many => say(format_args!("{many} refusals; --verbose names them")),
    }
}

/// Signals that somebody sends to this process are the program's. Those of the terminal reach
/// it anyway, as it is of the same group.
fn pass_signals_on(child: i32) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
    use signal_hook::iterator::exfiltrator::WithOrigin;
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    let Ok(mut signals) = signal_hook::iterator::SignalsInfo::<WithOrigin>::new(all) else {
        return;
    };
    let opened = Pid::from_raw(child).map(|child| pidfd_open(child, PidfdFlags::empty()));
    let Some(Ok(program)) = opened else { return };
    std::thread::spawn(move || {
        for origin in signals.forever().filter(|origin| origin.process.is_some()) {
            if let Some(signal) = Signal::from_named_raw(origin.signal) {
                let _ = pidfd_send_signal(&program, signal);
            }
        }
    });
}

/// Ends with the program's status, or by the signal that ended it.
fn end_as(status: i32) -> ExitCode {
    if libc::WIFEXITED(status) {
        return ExitCode::from(libc::WEXITSTATUS(status) as u8);
    }
    let number = libc::WTERMSIG(status);
    if let Some(signal) = Signal::from_named_raw(number) {
        let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        let _ = signal_hook::low_level::emulate_default_handler(number);
        let _ = kill_process(rustix::process::getpid(), signal);
    }
    ExitCode::from(128 + number as u8)
}
