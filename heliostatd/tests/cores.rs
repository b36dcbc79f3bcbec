//! Cores parted on this machine: programs and server loops go to theirs, and come back whatever ends.
//!
//! The test process has a session, so it is placed as well; tests run one at a time, and each puts its
//! own threads back. On a machine with one core there is nothing to part.

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heliostat_abi::code::Code;
use heliostat_abi::cores::{
    CoresReply, CoresRequest, CoresState, CpuMask, CpuRanges, Layout, Wanted,
};
use heliostat_abi::place::EXAMINER_VARIABLE;
use heliostat_abi::session::node;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::affinity::{allowed, restrict, CpuSet};
use support::*;

const ROLE: &str = "HELIOSTATD_CORES_ROLE";
const SOCKET: &str = "HELIOSTAT_SOCKET";
/// A user that owns nothing on any machine.
const NOBODY: u32 = 65534;
/// How often the control plane is killed, unless HELIOSTAT_KILLS says.
const KILLS: u64 = 12;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// This process's own cores, which it has again at the end.
struct Own {
    all: CpuSet,
    _turn: MutexGuard<'static, ()>,
}

impl Own {
    /// `None` where there is nothing to part.
    fn take() -> Option<Own> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let all = allowed(0).unwrap();
        if all.count() < 2 {
            eprintln!("skipped: one core");
            return None;
        }
        Some(Own { all, _turn: turn })
    }

    fn mask(&self) -> CpuMask {
        self.all.iter().collect()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for tid in threads_of(std::process::id()) {
            let _ = restrict(tid as i32, &self.all);
        }
    }
}

fn threads_of(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn mask_of(tid: u32) -> CpuMask {
    allowed(tid as i32).map(|set| set.iter().collect()).unwrap_or(CpuMask::EMPTY)
}

/// Asks about cores.
fn ask(client: &mut Client, request: CoresRequest) -> Result<CoresState, Code> {
    match client.ask(&Request::Own(request.encode())).0 {
        Reply::Own(own) => match CoresReply::decode(&own).unwrap() {
            CoresReply::State(state) => Ok(state),
        },
        Reply::Refused { code, .. } => Err(code),
        other => panic!("{other:?}"),
    }
}

/// Asks for a change, and waits until it is done.
fn change(client: &mut Client, request: CoresRequest) -> CoresState {
    ask(client, request).unwrap();
    let mut state = None;
    await_that("the change is done", || {
        state = ask(client, CoresRequest::State).ok().filter(|state| state.generation % 2 == 0);
        state.is_some()
    });
    state.unwrap()
}

fn kernel(count: u32) -> CoresRequest {
    let (kernel, interrupt) = (Wanted::Count(count), Wanted::NONE);
    CoresRequest::Set { layout: Layout::Packed, kernel, interrupt }
}

/// A program under a control plane: whoever was begun with its socket. Killed with the value.
struct Program(Child);

impl Program {
    fn start(daemon: &Daemon, script: &str) -> Program {
        Program::of(None, daemon, script)
    }

    /// One of perhaps another user.
    fn of(user: Option<u32>, daemon: &Daemon, script: &str) -> Program {
        let _guard = no_starts();
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(SOCKET, daemon.socket()).stdin(Stdio::null());
        command.env(EXAMINER_VARIABLE, "/bin/true");
        user.map(|user| command.uid(user).gid(user));
        Program(command.process_group(0).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn mask(&self) -> CpuMask {
        mask_of(self.pid())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(self.pid() as i32).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let told = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    told.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn child_of(program: &Program) -> u32 {
    await_that("it has a child", || !children_of(program.pid()).is_empty());
    children_of(program.pid())[0]
}

#[test]
fn programs_go_to_application_cores_server_loops_to_kernel_cores_and_all_come_back() {
    let Some(own) = Own::take() else { return };
    let daemon = Daemon::start();
    let program = Program::start(&daemon, "sleep 600 & sleep 600 & wait");
    let child = child_of(&program);
    let narrow = Program::start(&daemon, "exec sleep 600");
    let last = own.all.iter().last().unwrap();
    restrict(narrow.pid() as i32, &CpuSet::single(last)).unwrap();
    let (mut client, welcome) = daemon.session();
    let state = change(&mut client, kernel(1));
    assert_eq!(state.application.union(&state.kernel), own.mask());
    assert_eq!((program.mask(), mask_of(child)), (state.application, state.application));
    assert_eq!(narrow.mask().to_string(), last.to_string());
    assert_eq!((mask_of(daemon.pid()), state.left), (state.kernel, 1));
    assert!(state.means.masks || state.means.cpusets);
    let word = welcome.node.atomic_u32(node::PARTITION);
    assert_eq!(word.load(std::sync::atomic::Ordering::Acquire), state.generation);
    let told = &daemon.status()["cores"];
    assert_eq!(
        (&told["is_parted"], &told["kernel"]),
        (&true.into(), &state.kernel.to_string().into())
    );
    let state = change(&mut client, CoresRequest::Reset);
    assert!(state.kernel.is_empty());
    let all = [program.mask(), mask_of(child), mask_of(daemon.pid()), mask_of(std::process::id())];
    assert_eq!(all, [own.mask(); 4]);
    assert_eq!(narrow.mask().to_string(), last.to_string());
}

#[test]
fn what_comes_later_is_placed_and_what_it_makes_comes_back() {
    let Some(own) = Own::take() else { return };
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let state = change(&mut client, kernel(1));
    let threads = threads_of(std::process::id());
    threads.iter().for_each(|tid| restrict(*tid as i32, &own.all).unwrap());
    let program = Program::start(&daemon, "sleep 600 & wait");
    // It says nothing of itself; the next that does has all looked at.
    assert_eq!(ask(&mut client, CoresRequest::Join).unwrap().kernel, state.kernel);
    await_that("it is placed", || program.mask() == state.application);
    let child = child_of(&program);
    change(&mut client, CoresRequest::Reset);
    assert_eq!((program.mask(), mask_of(child)), (own.mask(), own.mask()));
}

#[test]
fn a_rule_places_a_program_by_its_name() {
    let Some(own) = Own::take() else { return };
    let config = "[[cores]]\nprogram = \"sleep\"\nplace = \"kernel\"\n\
                  [[cores]]\nprogram = \"sh\"\nplace = \"left\"\n";
    let daemon = Daemon::with(config, &[]);
    let program = Program::start(&daemon, "sleep 600 & wait");
    let child = child_of(&program);
    await_that("it is sleep", || {
        std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default() == "sleep\n"
    });
    let (mut client, _) = daemon.session();
    let state = change(&mut client, kernel(1));
    assert_eq!((program.mask(), mask_of(child)), (own.mask(), state.kernel));
    change(&mut client, CoresRequest::Reset);
    assert_eq!(mask_of(child), own.mask());
}

#[test]
fn a_partition_that_leaves_no_application_core_is_refused_and_changes_nothing() {
    let Some(own) = Own::take() else { return };
    let daemon = Daemon::start();
    let program = Program::start(&daemon, "exec sleep 600");
    let (mut client, _) = daemon.session();
    let all = own.mask().count() as u32;
    assert_eq!(ask(&mut client, kernel(all)), Err(Code::BadState));
    let elsewhere = CpuRanges::of([1000].into_iter().collect()).unwrap();
    let set = CoresRequest::Set {
        layout: Layout::Spread,
        kernel: Wanted::List(elsewhere),
        interrupt: Wanted::NONE,
    };
    assert_eq!(ask(&mut client, set), Err(Code::NotFound));
    assert_eq!(
        (program.mask(), ask(&mut client, CoresRequest::State).unwrap().generation),
        (own.mask(), 0)
    );
}

#[test]
fn the_next_start_undoes_what_a_killed_control_plane_left() {
    let Some(own) = Own::take() else { return };
    let mut daemon = Daemon::start();
    let program = Program::start(&daemon, "sleep 600 & wait");
    let child = child_of(&program);
    let (mut client, _) = daemon.session();
    let state = change(&mut client, kernel(1));
    daemon.kill();
    assert_eq!(program.mask(), state.application);
    assert!(daemon.folder().join("control.sock.cores").exists());
    daemon.restart();
    await_that("it is undone", || !daemon.folder().join("control.sock.cores").exists());
    assert_eq!((program.mask(), mask_of(child)), (own.mask(), own.mask()));
    await_that("people are told", || {
        daemon.status()["cores"]["recovered"]["threads"].as_u64() >= Some(2)
    });
    let (mut client, _) = daemon.session();
    assert!(ask(&mut client, CoresRequest::State).unwrap().kernel.is_empty());
}

#[test]
fn a_control_plane_that_ends_in_order_leaves_everything_as_it_was() {
    let Some(own) = Own::take() else { return };
    let mut daemon = Daemon::start();
    let program = Program::start(&daemon, "exec sleep 600");
    let (mut client, _) = daemon.session();
    change(&mut client, kernel(1));
    daemon.signal(rustix::process::Signal::TERM);
    await_that("it ends", || daemon.ended().is_some());
    assert_eq!(program.mask(), own.mask());
    assert!(!daemon.folder().join("control.sock.cores").exists());
}

#[test]
fn killed_at_any_moment_it_leaves_nothing_that_the_next_start_does_not_undo() {
    let Some(own) = Own::take() else { return };
    let kills = std::env::var("HELIOSTAT_KILLS").ok().and_then(|it| it.parse().ok());
    let mut daemon = Daemon::start();
    let programs: Vec<Program> =
        (0..8).map(|_| Program::start(&daemon, "sleep 600 & sleep 600 & wait")).collect();
    for kill in 0..kills.unwrap_or(KILLS) {
        let (mut client, _) = daemon.session();
        let _ = ask(&mut client, if kill % 3 == 2 { CoresRequest::Reset } else { kernel(1) });
        std::thread::sleep(Duration::from_micros(kill * kill * 150));
        daemon.restart();
        await_that("it is undone", || !daemon.folder().join("control.sock.cores").exists());
        await_that("the thread is done", || {
            programs.iter().all(|program| program.mask() == own.mask())
        });
        let children = programs.iter().flat_map(|program| children_of(program.pid()));
        assert!(children.into_iter().all(|child| mask_of(child) == own.mask()), "kill {kill}");
    }
}

#[test]
fn with_the_rights_of_its_unit_it_places_every_user_s_programs() {
    let Some(own) = Own::take() else { return };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let daemon = Daemon::as_unit("");
    let program = Program::of(Some(NOBODY), &daemon, "exec sleep 600");
    let (mut client, _) = daemon.session();
    let state = change(&mut client, kernel(1));
    assert_eq!((program.mask(), state.left), (state.application, 0));
    change(&mut client, CoresRequest::Reset);
    assert_eq!(program.mask(), own.mask());
}

/// Not a test: the part that another user plays. Does nothing when run by itself.
#[test]
fn second_process() {
    let Ok(_) = std::env::var(ROLE) else { return };
    let mut client = Client::connect(&std::env::var(SOCKET).unwrap());
    client.hello();
    let asked = [kernel(1), CoresRequest::Reset].map(|request| ask(&mut client, request).err());
    let sees = ask(&mut client, CoresRequest::State).is_ok();
    println!("said: {asked:?} {sees}");
}

fn said_by_nobody(daemon: &Daemon) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "second_process", "--nocapture"]);
    command.env(ROLE, "ask").env(SOCKET, daemon.socket()).uid(NOBODY).gid(NOBODY);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let lines = BufReader::new(child.stdout.take()?).lines().map_while(Result::ok);
    let said = lines.filter_map(|line| Some(line.split_once("said: ")?.1.to_owned())).next();
    child.wait().unwrap();
    said
}

#[test]
fn another_user_parts_cores_only_by_a_rule_that_names_them() {
    let Some(_own) = Own::take() else { return };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let everything = format!("[[rule]]\naction = \"allow\"\nusers = [{NOBODY}]\n");
    for config in ["", &everything] {
        let daemon = Daemon::with(config, &[]);
        let Some(said) = said_by_nobody(&daemon) else { return };
        assert_eq!(said, "[Some(Denied), Some(Denied)] true");
    }
    let named = format!(
        "[[rule]]\naction = \"allow\"\nusers = [{NOBODY}]\nrights = [\"manage\"]\nnames = [\"/cores\"]\n"
    );
    let daemon = Daemon::with(&named, &[]);
    let said = said_by_nobody(&daemon).unwrap();
    // The second may come while the first is being done.
    assert!(said.starts_with("[None, ") && !said.contains("Denied"), "{said}");
    daemon.signal(rustix::process::Signal::TERM);
}
