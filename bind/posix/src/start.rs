//! The constructor: runs before main, patches libc once, and never fails the program, unless
//! `heliostat run --require` asked for that.

use std::path::Path;

use heliostat_abi::code::Native;
use heliostat_abi::listener::SHARE_VARIABLE;
use heliostat_abi::offload::STAGES_VARIABLE;
use heliostat_abi::place::{
    DIRECT_VARIABLE, IMAGE_VARIABLE, NETWORK_VARIABLE, REQUIRE_VARIABLE, SEALED_VARIABLE,
    SOCKET_VARIABLE, VERBOSE_VARIABLE, WRITE_IMAGE_VARIABLE,
};
use heliostat_abi::session::report::Counter;
use heliostat_abi::stream::carry::Carry;
use heliostat_client::session;
use heliostat_interpose::{
    install, install_image, is_go_program, Installed, Reason, Request, Threads,
};
use heliostat_stub_posix::net::{delegated, listen, shared};
use heliostat_stub_posix::{file, native_as_a_whole, process, report, stay_native};

use crate::libraries::Others;
use crate::{
    dispatch, durable, environment, fault_action, libraries, offload, passed_on, sealed, spawn,
};

#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

/// Exit status of a program that may not run natively, as that of `heliostat run`.
const NOT_RUN: i32 = 125;

extern "C" fn start() {
    let Ok(socket) = std::env::var(SOCKET_VARIABLE) else { return };
    if let Some(path) = std::env::var_os(WRITE_IMAGE_VARIABLE) {
        write_image(Path::new(&path));
    }
    process::adopt();
    heliostat_base::process::find_thread_note();
    let program = program_name();
    session::configure(socket.clone(), program.clone());
    if let Ok(ports) = std::env::var(SHARE_VARIABLE) {
        shared::configure(&ports);
    }
    if let Some(carry) = std::env::var(NETWORK_VARIABLE).ok().and_then(|text| Carry::parse(&text)) {
        delegated::configure(carry);
    }
    if std::env::var_os(DIRECT_VARIABLE).is_some_and(|value| value == "0") {
        stay_native(Native::Disabled);
    }
    let outcome = catch();
    if let Ok(folder) = std::env::var(STAGES_VARIABLE) {
        offload::stages::measure(&folder);
    }
    if outcome.is_ok() {
        heliostat_base::process::prepare_forks(prepare_fork);
    }
    require(&program, &outcome);
    tell(&program, &socket, &outcome);
    passed_on::remember();
}

/// libc is about to fork.
extern "C" fn prepare_fork() {
    process::prepare_fork();
}

/// System-call sites: of libc, how many are caught and how many are not; and those of other files.
struct Caught {
    libc: (usize, usize),
    others: Others,
}

/// Patches libc, and what else makes system calls; or says why not.
fn catch() -> Result<Caught, String> {
    if is_go_program() {
        return Err(native(Native::OwnCalls, Native::OwnCalls.text().to_owned()));
    }
    if std::env::var_os(SEALED_VARIABLE).is_some() {
        sealed::enter();
    }
    let is_durable = durable::begin();
    // What is held back, and what a supervisor is asked, is known by the thread.
    let is_offload = !is_durable && !sealed::is_sealed() && offload::begin();
    let request = request(is_durable, is_offload);
    let image = if is_durable { None } else { by_image(&request) };
    let done = match image.map_or_else(|| install(&request), Ok) {
        Ok(done) => done,
        Err(error) => return Err(native(Native::Unpatched, error.to_string())),
    };
    if std::env::var_os(passed_on::FILES_VARIABLE).is_none_or(|value| value != "0") {
        file::enable(fault_action::install);
    }
    listen::executed();
    report::count_many(Counter::Uncaught, done.unpatchable.len() as u64);
    durable::judge_uncaught(certain(&done.unpatchable));
    let others = libraries::catch(&request);
    libraries::catch_later(request);
    Ok(Caught { libc: (done.patched, done.unpatchable.len()), others })
}

/// The numbers of sites that are not caught and might be: those of libc that must stay where they are
/// (rt_sigreturn, births) are announced, or let nothing out.
fn certain(left: &[(Option<u32>, Reason)]) -> impl Iterator<Item = Option<u32>> + '_ {
    left.iter().filter(|(_, why)| *why != Reason::Forbidden).map(|(number, _)| *number)
}

/// What is caught in this process.
fn request(is_durable: bool, is_offload: bool) -> Request<'static> {
    Request {
        filter: match (sealed::is_sealed(), is_durable) {
            (true, true) => dispatch::is_caught_sealed_durable,
            (true, false) => dispatch::is_caught_sealed,
            (false, true) => dispatch::is_caught_durable,
            (false, false) if is_offload => dispatch::is_caught_offload,
            (false, false) => dispatch::is_caught,
        },
        hook: dispatch::hook,
        before_spawn: Some(spawn::before_spawn),
        gate: is_offload.then_some(dispatch::gate),
        list: None,
        threads: Threads::MustBeAlone,
    }
}

/// Patches libc by the image that the command line has made for sealed programs: a third of what
/// such a program's start takes otherwise.
fn by_image(request: &Request) -> Option<Installed> {
    let path = std::env::var_os(IMAGE_VARIABLE).filter(|_| sealed::is_sealed())?;
    let path = Path::new(&path);
    if let Some(folder) = path.parent() {
        // All other folders are asked about in vain: behind the fence they are not there.
        heliostat_interpose::cache::look_only_in(folder.to_owned());
    }
    install_image(request, path)
}

/// Makes the image of this libc for sealed programs, in place of running the program.
fn write_image(path: &Path) -> ! {
    sealed::enter();
    if let Some(folder) = path.parent() {
        heliostat_interpose::cache::look_only_in(folder.to_owned());
    }
    let is_made = heliostat_interpose::write_image(&request(false, false), path).is_ok();
    // SAFETY: ends the process; nothing of the program has run yet.
    unsafe { libc::_exit(i32::from(!is_made)) }
}

/// Nothing of this program will be seen later on: this is the one time to say that it is here.
fn native(reason: Native, why: String) -> String {
    stay_native(reason);
    session::be_known();
    why
}

/// `--require`: ends a program that would be native as a whole, before it has begun. What the program
/// starts itself is not asked for.
fn require(program: &str, outcome: &Result<Caught, String>) {
    if std::env::var_os(REQUIRE_VARIABLE).is_none() {
        return;
    }
    // SAFETY: a constructor; the program has no thread yet.
    unsafe { environment::remove(REQUIRE_VARIABLE) };
    let why = match (outcome, native_as_a_whole(), session::standing()) {
        (Err(error), _, _) => error.clone(),
        (Ok(Caught { others: Others { left: Some(why), .. }, .. }), _, _) => why.clone(),
        (_, Native::None, Ok(_)) => return,
        (_, Native::None, Err(error)) => {
            format!("it gets no session with the control plane: {error}")
        }
        (_, whole, _) => whole.text().to_owned(),
    };
    eprintln!("heliostat: {program} is not run: {why}");
    // SAFETY: ends the process; nothing of the program has run yet.
    unsafe { libc::_exit(NOT_RUN) };
}

/// Only when asked, since a library must not write into its program's output; and what the programs
/// before this one in the tree have said is not said again: the variable carries it.
fn tell(program: &str, socket: &str, outcome: &Result<Caught, String>) {
    let Some(said) = std::env::var_os(VERBOSE_VARIABLE) else { return };
    let line = match outcome {
        Ok(caught) => sites(caught),
        Err(error) => format!("native: {error}"),
    };
    if said == *line {
        return;
    }
    // SAFETY: a constructor; the program has no thread yet.
    unsafe { environment::replace(VERBOSE_VARIABLE, &line) };
    eprintln!("heliostat: {program}: {line}; control plane {socket}");
}

/// What is caught and what is not, in words.
fn sites(Caught { libc: (caught, left), others }: &Caught) -> String {
    let mut line = format!("{caught} system-call sites of libc are caught");
    if *left > 0 {
        line.push_str(&format!(", {left} cannot be"));
    }
    if others.caught > 0 {
        line.push_str(&format!(", and {} of {} other files", others.caught, others.files));
    }
    if let Some(why) = &others.left {
        line.push_str(&format!("; {why}"));
    }
    line
}

/// As /proc/self/comm has it, without a path to be asked about.
fn program_name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes 16 bytes at most, the NUL included (source: prctl(2)).
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}
