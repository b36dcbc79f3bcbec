//! Names are opened where the program is, and one that hangs is the loss of its own session.
//!
//! The second process is this test program again, told by the environment which part it plays;
//! it says on standard output how that went. What needs root's rights is skipped without them.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::{OpKind, Operation, READ};

const ROLE: &str = "HELIOSTATD_TEST_ROLE";
const SOCKET: &str = "HELIOSTATD_TEST_SOCKET";
/// A user that is neither root nor whoever runs the tests.
const NOBODY: u32 = 65534;
const FOLDER: &str = "HELIOSTATD_TEST_FOLDER";

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn mount(kind: &CStr, at: &Path, options: &str) -> bool {
    let (at, options) = (text(at), CString::new(options).unwrap());
    // SAFETY: all five are texts that live until the call returns.
    unsafe {
        libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

/// Not a test: the part that the second process plays. Does nothing when run by itself.
#[test]
fn second_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role == "hide in a folder" {
        // Connects as that user, and comes back once more.
        become_ordinary(0);
    }
    let mut session = Delegate::of(Client::connect(&std::env::var(SOCKET).unwrap()));
    let folder = std::env::var(FOLDER).unwrap();
    let host = format!("{folder}/file");
    if role == "end meanwhile" {
        submit_open(&mut session, &host, 0);
        // Whoever plays against it says when the name hangs.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        std::process::exit(0);
    }
    let before = bytes_of(&mut session, &host);
    let now = match role.as_str() {
        "change its root" => {
            // SAFETY: the text lives until the call returns.
            assert_eq!(unsafe { libc::chroot(text(Path::new(&folder)).as_ptr()) }, 0);
            // Links and dots stay inside as well.
            ["/file", "/link", "/../../file", &host].map(|name| bytes_of(&mut session, name))
        }
        "have mounts of its own" => {
            assert!(mount(c"tmpfs", Path::new(&folder), ""));
            std::fs::write(&host, "covers").unwrap();
            [&host, "/proc/self/fd/0", "/nowhere", "."].map(|name| bytes_of(&mut session, name))
        }
        "hide in a folder" => {
            // SAFETY: the text lives until the call returns; the other takes no pointer.
            unsafe {
                assert_eq!(libc::setresuid(0, 0, 0), 0);
                assert_eq!(libc::chroot(text(Path::new(&folder)).as_ptr()), 0);
            }
            // Who changes its user is not dumpable (prctl(2)).
            become_ordinary(NOBODY);
            [&host, "/file", "/", "/nowhere"].map(|name| bytes_of(&mut session, name))
        }
        "stay" => [&host, "/nowhere", "/nowhere", "."].map(|name| bytes_of(&mut session, name)),
        other => panic!("{other}"),
    };
    println!("said: {before:?} {now:?}");
}

/// An ordinary user, with this saved user to come back to.
fn become_ordinary(saved: u32) {
    // SAFETY: neither takes a pointer.
    unsafe {
        assert_eq!(libc::setresgid(NOBODY, NOBODY, if saved == 0 { 0 } else { NOBODY }), 0);
        assert_eq!(libc::setresuid(NOBODY, NOBODY, saved), 0);
    }
}

/// What a name leads to, or an errno.
fn bytes_of(session: &mut Delegate, name: &str) -> Result<String, i64> {
    let file = session.open(name, READ)?;
    Ok(String::from_utf8(session.read(file, 0, 100).2).unwrap())
}

/// What the second process said; `None` where it may not play its part here.
fn said(daemon: &Daemon, role: &str, folder: &Path, before: &[&str]) -> Option<String> {
    let own = std::env::current_exe().unwrap();
    let words = before.iter().map(|word| word.to_string().into()).chain([own.into_os_string()]);
    let words: Vec<std::ffi::OsString> = words.collect();
    if !Command::new(&words[0]).args(&words[1..]).arg("--list").output().ok()?.status.success() {
        return None;
    }
    let places = [(SOCKET, daemon.socket().into_os_string()), (FOLDER, folder.into())];
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", "names::second_process", "--nocapture"]);
    let output = command.env(ROLE, role).envs(places).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = printed.lines().find_map(|line| line.split_once("said: "));
    Some(line.unwrap_or_else(|| panic!("{output:?}")).1.to_owned())
}

fn is_root() -> bool {
    // SAFETY: it asks only.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        eprintln!("skipped: not root");
    }
    is_root
}

/// A folder with a file that says this.
fn folder_with_file(daemon: &Daemon, says: &str) -> std::path::PathBuf {
    let folder = daemon.folder().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), says).unwrap();
    folder
}

#[test]
fn names_are_those_of_the_programs_own_root() {
    let daemon = Daemon::start();
    let folder = folder_with_file(&daemon, "inside");
    std::os::unix::fs::symlink("/file", folder.join("link")).unwrap();
    if !is_root() {
        return;
    }
    let inside = "Ok(\"inside\")";
    let expected = format!("{inside} [{inside}, {inside}, {inside}, Err({})]", libc::ENOENT);
    assert_eq!(said(&daemon, "change its root", &folder, &[]), Some(expected));
}

#[test]
fn a_file_of_other_mounts_is_taken_only_where_its_path_leads_to_it_here() {
    let daemon = Daemon::start();
    let folder = folder_with_file(&daemon, "host");
    if !is_root() {
        return;
    }
    let Some(said) = said(&daemon, "have mounts of its own", &folder, &["unshare", "--mount"])
    else {
        return eprintln!("skipped: no mount namespace may be made here");
    };
    // Before that namespace has mounts that differ, and then one that covers the folder.
    let (same, other) = ("Ok(\"host\")", format!("Err({})", libc::EOPNOTSUPP));
    let [link, nowhere, relative] = [libc::ELOOP, libc::ENOENT, libc::EINVAL];
    assert_eq!(
        said,
        format!("{same} [{other}, Err({link}), Err({nowhere}), Err({relative})]"),
        "the host's file has the same name"
    );
}

#[test]
fn a_program_that_hides_from_its_users_control_plane_opens_nothing_of_the_hosts() {
    if !is_root() {
        return;
    }
    let start = || {
        let daemon = Daemon::start();
        let folder = folder_with_file(&daemon, "host");
        (daemon, folder)
    };
    // SAFETY: made directly, both calls are about that thread alone and take no pointer.
    let ordinary = || unsafe {
        assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
    };
    let started = std::thread::spawn(move || {
        ordinary();
        start()
    });
    let (daemon, folder) = started.join().unwrap();
    let user = format!("--reuid={NOBODY}");
    let as_user = ["setpriv", &user, "--regid=65534", "--clear-groups"];
    let Some(stays) = said(&daemon, "stay", &folder, &as_user) else {
        return eprintln!("skipped: no setpriv");
    };
    assert!(stays.starts_with("Ok(\"host\") [Ok(\"host\"), Err(2)"), "{stays}");
    let refused = format!("Err({})", libc::EACCES);
    let expected = format!("{refused} [{}]", [(); 4].map(|()| &refused[..]).join(", "));
    assert_eq!(said(&daemon, "hide in a folder", &folder, &[]), Some(expected));
}

/// Root's program in a container has often none of the rights to pass by what a file allows.
#[test]
fn a_program_of_roots_opens_no_file_that_it_has_no_right_to() {
    let daemon = Daemon::start();
    let folder = folder_with_file(&daemon, "host");
    if !is_root() {
        return;
    }
    let host = folder.join("file");
    std::os::unix::fs::chown(&host, Some(NOBODY), None).unwrap();
    std::fs::set_permissions(&host, std::fs::Permissions::from_mode(0o600)).unwrap();
    let without = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"];
    let elsewhere = ["unshare", "--user", "--map-root-user"];
    assert!(said(&daemon, "stay", &folder, &[]).unwrap().starts_with("Ok(\"host\")"));
    for before in [&without[..], &elsewhere, &[&without[..], &elsewhere].concat()] {
        match said(&daemon, "stay", &folder, before) {
            Some(stays) => assert!(stays.starts_with("Err(13) [Err(13)"), "{before:?}: {stays}"),
            None => eprintln!("skipped: {before:?}"),
        }
    }
}

/// A file system whose server never answers, until it is dropped.
struct Hung<'a>(Option<File>, &'a Path);

impl Hung<'_> {
    fn mount(at: &Path) -> Option<Hung<'_>> {
        let server = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        mount(c"fuse", at, &options).then(|| Hung(Some(server), at))
    }
}

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        self.0 = None;
        // SAFETY: the text lives until the call returns.
        unsafe { libc::umount2(text(self.1).as_ptr(), libc::MNT_DETACH) };
    }
}

/// Threads of the opener, whoever asks and whatever hangs (`opener/queue.rs`).
const OPENERS_MAX: usize = 16;

fn openers(daemon: &Daemon) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name == "opener\n")).count()
}

fn submit_open(session: &mut Delegate, name: &str, tag: u64) {
    session.window.copy_in(0, name.as_bytes()).unwrap();
    let pieces = pieces(&[(0, name.len() as u32)]);
    let (kind, argument) = (OpKind::Open, READ);
    session.submit(&Operation { kind, argument, pieces, ..blank(tag) });
}

#[test]
fn a_process_that_ends_while_its_name_hangs_costs_no_processor() {
    let daemon = Daemon::start();
    let folder = daemon.folder().join("hung");
    std::fs::create_dir(&folder).unwrap();
    let Some(hung) = Hung::mount(&folder) else {
        return eprintln!("skipped: no file system of one's own may be mounted here");
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "names::second_process", "--nocapture"]).env(ROLE, "end meanwhile");
    command.env(SOCKET, daemon.socket()).env(FOLDER, &folder);
    let mut program = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    await_that("an open hangs", || openers(&daemon) >= 2);
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    let before = daemon.ticks();
    std::thread::sleep(Duration::from_secs(1));
    let used = daemon.ticks() - before;
    assert!(used < 20, "{used} ticks of a hundred");
    drop(hung);
}

#[test]
fn a_name_that_hangs_holds_up_its_own_session_only() {
    let daemon = Daemon::start();
    let fine = sample(&daemon, 10);
    let folder = daemon.folder().join("hung");
    std::fs::create_dir(&folder).unwrap();
    let Some(mut hung) = Hung::mount(&folder) else {
        return eprintln!("skipped: no file system of one's own may be mounted here");
    };
    let (mut stuck, mut other) = (Delegate::new(&daemon), Delegate::new(&daemon));
    let name = format!("{}/file", folder.display());
    for tag in 0..3 {
        submit_open(&mut stuck, &name, tag);
    }
    // Two are away, and one is there for others.
    await_that("two opens hang", || openers(&daemon) >= 3);
    for _ in 0..20 {
        let file = other.open(fine.to_str().unwrap(), READ).unwrap();
        assert_eq!(other.read(file, 0, 10).0, 10);
    }
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(stuck.open(fine.to_str().unwrap(), READ), Err(i64::from(libc::EAGAIN)));
    assert!(other.open(fine.to_str().unwrap(), READ).is_ok());

    // Its server ends: what hung has failed, and the session has its threads again.
    hung.0 = None;
    for _ in 0..3 {
        assert!(stuck.next().result < 0);
    }
    assert!(stuck.open(fine.to_str().unwrap(), READ).is_ok());
    // One that has told what it found may yet be on its way back when the same session asks again,
    // so there can be more than are ever at work, but not more than the limit.
    assert!(openers(&daemon) <= OPENERS_MAX);
}
