//! Delegated changes of names that are wrong, lead elsewhere, or are not the program's to make.
//!
//! The second process is this test program again, told by the environment what to do.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, symlink, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::beside::{as_user, may_become_others};
use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;

const SOCKET: &str = "HELIOSTATD_TEST_SOCKET";
const FOLDER: &str = "HELIOSTATD_TEST_FOLDER";
const OTHER: u32 = 60_010;

const ACCESS: i64 = -(libc::EACCES as i64);
const INVALID: i64 = -(libc::EINVAL as i64);
const LOOP: i64 = -(libc::ELOOP as i64);
const TOO_LONG: i64 = -(libc::ENAMETOOLONG as i64);

/// A folder that rules may name before the daemon is started; gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = place().join(format!("heliostatd-judged-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn rule(&self, action: &str, right: &str, name: &str) -> String {
        let names = format!("/file{}/{name}", self.0.display());
        format!("[[rule]]\naction = \"{action}\"\nrights = [\"{right}\"]\nnames = [\"{names}\"]\n")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Open for writing, with more flags: 0, or minus an errno.
fn opened(session: &mut Delegate, path: &Path, argument: u64) -> i64 {
    session.open(path.to_str().unwrap(), argument).map_or_else(|errno| -errno, |_| 0)
}

fn made(session: &mut Delegate, path: &Path) -> i64 {
    opened(session, path, WRITE | CREATE | mode(0o600))
}

#[test]
fn names_that_are_none_are_refused_and_change_nothing() {
    let daemon = Daemon::start();
    let folder = Folder::make();
    let mut session = Delegate::new(&daemon);
    let base = format!("{}/", folder.0.display());
    let long = |length| [base.as_bytes(), &vec![b'n'; length][..]].concat();
    // Whose directory's part alone would not be too long.
    let mut deep = base.clone().into_bytes();
    deep.resize(4095, b'/');
    deep.push(b'd');
    let with = |end: &str| format!("{base}{end}").into_bytes();
    let names = [
        (long(256), TOO_LONG),
        (deep, TOO_LONG),
        (with("a\0b"), INVALID),
        (with("a/"), INVALID),
        (with("."), INVALID),
        (with(".."), INVALID),
        (b"relative".to_vec(), INVALID),
        (b"/".to_vec(), INVALID),
        (vec![0], INVALID),
    ];
    for (name, errno) in &names {
        let text = String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned();
        for kind in [OpKind::Mkdir, OpKind::Rmdir, OpKind::Unlink] {
            assert_eq!(session.names(kind, &[name], 0), *errno, "{kind:?} {text}");
        }
        let target = &folder.at("target");
        assert_eq!(session.names(OpKind::Symlink, &[b"x", name], 0), *errno, "{text}");
        assert_eq!(session.names(OpKind::Rename, &[bytes(target), name], 0).signum(), -1);
        assert_eq!(session.names(OpKind::Rename, &[name, bytes(target)], 0), *errno, "{text}");
    }
    assert_eq!(session.names(OpKind::Mkdir, &[&long(255)], 0o700), 0);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn records_with_pieces_outside_or_unknown_bits_are_refused() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let window = WINDOW as u64;
    let name = (0, 10);
    let wrong = [
        (OpKind::Mkdir, 0, vec![(window - 5, 10)]),
        (OpKind::Mkdir, 0, vec![(0, 4097)]),
        (OpKind::Mkdir, 0o10000, vec![name]),
        (OpKind::Rename, 2, vec![name, name]),
        (OpKind::Rename, 0, vec![name]),
        (OpKind::Rename, 0, vec![name, (u64::MAX, 10)]),
        (OpKind::Unlink, 1, vec![name]),
        (OpKind::Readlink, 0, vec![name, (window, 1)]),
        (OpKind::Lock, 3, vec![]),
        (OpKind::Truncate, 1 << 63, vec![]),
        (OpKind::Readdir, 0, vec![(0, ENTRY_BYTES_MAX as u32 - 1)]),
        (OpKind::Open, READ | 1 << 40, vec![name]),
    ];
    for (kind, argument, places) in wrong {
        let asked = Operation { kind, argument, pieces: pieces(&places), ..blank(1) };
        assert_eq!(session.run(&asked).result, INVALID, "{kind:?} {argument} {places:?}");
    }
    let bad = -i64::from(libc::EBADF);
    let file = Operation { pieces: pieces(&[(0, 4096)]), ..blank(1) };
    assert_eq!(session.run(&Operation { kind: OpKind::Readdir, ..file }).result, bad);
    for kind in [OpKind::Lock, OpKind::Truncate] {
        assert_eq!(session.run(&Operation { kind, ..blank(1) }).result, bad);
    }
    assert_eq!(daemon.status()["delegated"]["malformed"], 12);
}

#[test]
fn a_cookie_that_no_directory_gave_harms_nobody() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let folder = daemon.folder().to_str().unwrap().to_owned();
    let directory = session.open(&folder, READ | DIRECTORY).unwrap();
    for shift in 0..63 {
        // Entries, or the directory's end, or EINVAL.
        if let Err(errno) = session.readdir(directory, 1 << shift, 4096) {
            assert_eq!(errno, INVALID);
        }
    }
    assert!(!session.readdir(directory, 0, 4096).unwrap().is_empty());
    serves(&daemon);
}

#[test]
fn links_that_jump_lead_nowhere() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    for name in ["/proc/self/cwd/made", "/proc/self/root/tmp/made", "/proc/self/fd/3/made"] {
        let name = Path::new(name);
        assert_eq!(session.names(OpKind::Mkdir, &[bytes(name)], 0o700), LOOP, "{name:?}");
        assert_eq!(session.names(OpKind::Unlink, &[bytes(name)], 0), LOOP, "{name:?}");
        assert_eq!(made(&mut session, name), LOOP, "{name:?}");
    }
}

#[test]
fn pipes_and_devices_are_not_opened_and_can_be_renamed_and_removed() {
    let daemon = Daemon::start();
    let folder = Folder::make();
    let mut session = Delegate::new(&daemon);
    let pipe = folder.at("pipe");
    let text = CString::new(bytes(&pipe)).unwrap();
    // SAFETY: the text lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    assert_eq!(made(&mut session, &pipe), INVALID);
    assert_eq!(opened(&mut session, &pipe, READ | WRITE | TRUNCATE), INVALID);
    let node = folder.at("node");
    let text = CString::new(bytes(&node)).unwrap();
    // SAFETY: the text lives until the call returns.
    let has_node =
        unsafe { libc::mknod(text.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 5)) };
    if has_node == 0 {
        assert_eq!(opened(&mut session, &node, READ | CREATE), INVALID);
    }
    let null = Path::new("/dev/null");
    assert!(opened(&mut session, null, WRITE | TRUNCATE) < 0, "another file system");
    let moved = folder.at("moved");
    assert_eq!(session.names(OpKind::Rename, &[bytes(&pipe), bytes(&moved)], 0), 0);
    assert!(std::fs::metadata(&moved).unwrap().file_type().is_fifo());
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&moved)], 0), 0);
    assert_eq!(opened(&mut session, &folder.0, WRITE | CREATE), -i64::from(libc::EISDIR));
    let file = folder.at("file");
    write_file(&file, b"bytes");
    let not_folder = -i64::from(libc::ENOTDIR);
    assert_eq!(opened(&mut session, &file, READ | DIRECTORY), not_folder);
}

#[test]
fn what_the_rules_refuse_is_refused_before_anything_changes() {
    let folder = Folder::make();
    let closed = folder.rule("deny", "write", "closed/*") + &folder.rule("deny", "write", "file");
    let daemon = Daemon::with(&closed, &[]);
    std::fs::create_dir(folder.at("closed")).unwrap();
    let [inside, file, open] = ["closed/inside", "file", "open"].map(|name| folder.at(name));
    [&inside, &file, &open].into_iter().for_each(|path| write_file(path, b"bytes"));
    let mut session = Delegate::new(&daemon);
    let new = folder.at("closed/new");
    assert_eq!(made(&mut session, &new), ACCESS);
    assert_eq!(session.names(OpKind::Mkdir, &[bytes(&new)], 0o700), ACCESS);
    assert_eq!(session.names(OpKind::Symlink, &[b"x", bytes(&new)], 0), ACCESS);
    assert_eq!(session.names(OpKind::Rename, &[bytes(&open), bytes(&new)], 0), ACCESS);
    assert!(!new.exists());
    for kept in [&inside, &file] {
        assert_eq!(session.names(OpKind::Unlink, &[bytes(kept)], 0), ACCESS);
        assert_eq!(opened(&mut session, kept, WRITE | TRUNCATE), ACCESS);
        let other = folder.at("other");
        assert_eq!(session.names(OpKind::Rename, &[bytes(kept), bytes(&other)], 0), ACCESS);
        assert_eq!(session.names(OpKind::Rename, &[bytes(&open), bytes(kept)], 0), ACCESS);
        assert_eq!(std::fs::read(kept).unwrap(), b"bytes");
    }
    // By a link, by dots, and by another path that the file could get.
    symlink("closed", folder.at("link")).unwrap();
    assert_eq!(made(&mut session, &folder.at("link/new")), ACCESS);
    assert_eq!(made(&mut session, &folder.at("closed/../closed/new")), ACCESS);
    let moved = [folder.at("closed"), folder.at("elsewhere")];
    assert_eq!(session.names(OpKind::Rename, &[bytes(&moved[0]), bytes(&moved[1])], 0), ACCESS);
    assert!(inside.exists() && !new.exists());
    assert_eq!(made(&mut session, &folder.at("allowed")), 0);
    let denials = daemon.status()["denials"].to_string();
    assert!(denials.contains("closed/\"") && denials.contains("rule 1"), "{denials}");
    assert!(denials.contains("rule 2"), "{denials}");
}

#[test]
fn who_may_not_change_a_directory_is_not_told_what_is_in_it() {
    let folder = Folder::make();
    let rules =
        folder.rule("deny", "write", "closed/*") + &folder.rule("deny", "read", "closed/l*");
    let daemon = Daemon::with(&rules, &[]);
    std::fs::create_dir(folder.at("closed")).unwrap();
    let [there, missing, open] = ["closed/there", "closed/missing", "open"].map(|it| folder.at(it));
    [&there, &open].into_iter().for_each(|path| write_file(path, b"bytes"));
    symlink("x", folder.at("closed/link")).unwrap();
    let mut session = Delegate::new(&daemon);
    for path in [&there, &missing] {
        for kind in [OpKind::Unlink, OpKind::Rmdir] {
            assert_eq!(session.names(kind, &[bytes(path)], 0), ACCESS, "{path:?}");
        }
        assert_eq!(opened(&mut session, path, WRITE | CREATE | EXCLUSIVE), ACCESS, "{path:?}");
        assert_eq!(session.names(OpKind::Rename, &[bytes(path), bytes(&open)], 0), ACCESS);
        assert_eq!(session.names(OpKind::Rename, &[bytes(&open), bytes(path)], 0), ACCESS);
    }
    for path in [folder.at("closed/link"), folder.at("closed/lost")] {
        assert_eq!(session.names(OpKind::Readlink, &[bytes(&path), b"room"], 0), ACCESS);
    }
}

/// By the time of the rename a directory may have the file's name.
#[test]
fn nothing_is_renamed_beneath_whose_names_a_rule_is_about_something() {
    let folder = Folder::make();
    let daemon = Daemon::with(&folder.rule("deny", "read", "gate/inside"), &[]);
    let [gate, other] = ["gate", "other"].map(|name| folder.at(name));
    let mut session = Delegate::new(&daemon);
    for (from, to) in [(&gate, &other), (&other, &gate)] {
        write_file(from, b"bytes");
        assert_eq!(session.names(OpKind::Rename, &[bytes(from), bytes(to)], 0), ACCESS);
        std::fs::remove_file(from).unwrap();
    }
}

#[test]
fn a_directory_that_rules_hide_is_neither_listed_nor_are_its_links_read() {
    let folder = Folder::make();
    let daemon = Daemon::with(&folder.rule("deny", "read", "hidden/*"), &[]);
    std::fs::create_dir(folder.at("hidden")).unwrap();
    symlink("x", folder.at("hidden/link")).unwrap();
    let mut session = Delegate::new(&daemon);
    assert_eq!(opened(&mut session, &folder.at("hidden"), READ | DIRECTORY), ACCESS);
    let link = folder.at("hidden/link");
    assert_eq!(session.names(OpKind::Readlink, &[bytes(&link), b"room"], 0), ACCESS);
    assert_eq!(opened(&mut session, &folder.0, READ | DIRECTORY), 0);
}

#[test]
fn what_may_not_be_read_gets_no_name_by_which_it_may() {
    let folder = Folder::make();
    let rules = folder.rule("deny", "read", "secret") + &folder.rule("deny", "read", "hid*");
    let daemon = Daemon::with(&rules, &[]);
    let [secret, open, hidden, other] =
        ["secret", "open", "hidden", "other"].map(|name| folder.at(name));
    [&secret, &open].into_iter().for_each(|path| write_file(path, b"bytes"));
    [&hidden, &other].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let mut session = Delegate::new(&daemon);
    let new = folder.at("new");
    for (from, to) in [(&secret, &open), (&secret, &new), (&hidden, &new), (&other, &hidden)] {
        let found = session.names(OpKind::Rename, &[bytes(from), bytes(to)], 0);
        assert_eq!(found, ACCESS, "{from:?} {to:?}");
    }
    assert_eq!(session.names(OpKind::Rename, &[bytes(&open), bytes(&new)], 0), 0);
    assert_eq!(session.names(OpKind::Rename, &[bytes(&other), bytes(&open)], 0), 0);
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&secret)], 0), 0, "it may be written");
}

#[test]
fn a_user_changes_names_in_its_own_directories_and_those_that_a_rule_opens() {
    if !may_become_others() {
        return;
    }
    let folder = Folder::make();
    let daemon = Daemon::with(&folder.rule("allow", "write", "shared/*"), &[]);
    for (name, owner, bits) in [("own", OTHER, 0o755), ("roots", 0, 0o1777), ("shared", 0, 0o777)] {
        std::fs::create_dir(folder.at(name)).unwrap();
        std::fs::set_permissions(folder.at(name), PermissionsExt::from_mode(bits)).unwrap();
        chown(folder.at(name), Some(OTHER).filter(|_| owner > 0), None).unwrap();
    }
    std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o755)).unwrap();
    let foreign = folder.at("own/foreign");
    write_file(&foreign, b"root's");
    let guard = no_starts();
    as_user(OTHER, || {
        let mut session = Delegate::new(&daemon);
        assert_eq!(made(&mut session, &folder.at("own/file")), 0);
        assert_eq!(made(&mut session, &folder.at("roots/file")), ACCESS, "no rule allows it");
        assert_eq!(made(&mut session, &folder.at("shared/file")), 0);
        assert_eq!(session.names(OpKind::Mkdir, &[bytes(&folder.at("shared/folder"))], 0o700), 0);
        assert_eq!(session.names(OpKind::Mkdir, &[bytes(&folder.at("top"))], 0o700), ACCESS);
        assert_eq!(session.names(OpKind::Unlink, &[bytes(&foreign)], 0), ACCESS, "root's file");
        let both = [folder.at("own/file"), folder.at("own/renamed")];
        assert_eq!(session.names(OpKind::Rename, &[bytes(&both[0]), bytes(&both[1])], 0), 0);
    })
    .unwrap();
    drop(guard);
    for name in ["own/renamed", "shared/file", "shared/folder"] {
        assert_eq!(std::fs::metadata(folder.at(name)).unwrap().uid(), OTHER, "{name}");
    }
    assert!(foreign.exists());
    // A process of which a thread has become another user may not be looked into, and a control plane
    // without CAP_SYS_PTRACE would not see what rights it has.
    // SAFETY: the call takes no pointer.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }, 0);
    // The openers have come back to their own rights.
    let mut root = Delegate::new(&daemon);
    assert_eq!(root.names(OpKind::Unlink, &[bytes(&foreign)], 0), 0);
}

/// Not a test: the part that the second process plays. Does nothing when run by itself.
#[test]
fn second_process() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let mut session = Delegate::of(Client::connect(&socket));
    let folder = CString::new(std::env::var(FOLDER).unwrap()).unwrap();
    // SAFETY: the text lives until the call returns; umask takes none.
    unsafe {
        assert_eq!(libc::chroot(folder.as_ptr()), 0);
        libc::umask(0o027);
    }
    let results = [
        session.names(OpKind::Mkdir, &[b"/../../made"], 0o777),
        session.names(OpKind::Mkdir, &[b"/out/linked"], 0o777),
        made(&mut session, Path::new("/out/../../../file")),
        session.names(OpKind::Rename, &[b"/file", b"/../renamed"], 0),
        session.names(OpKind::Unlink, &[folder.as_bytes()], 0),
    ];
    println!("said: {results:?}");
}

#[test]
fn names_stay_in_the_programs_own_root_and_have_its_umask() {
    // SAFETY: it asks only.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: not root");
    }
    let daemon = Daemon::start();
    let (folder, outside) = (Folder::make(), Folder::make());
    std::fs::create_dir_all(folder.at("outside")).unwrap();
    symlink("/outside", folder.at("out")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "metadata_hostile::second_process", "--nocapture"]);
    command.env(SOCKET, daemon.socket()).env(FOLDER, &folder.0);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = format!("said: [0, 0, 0, 0, {}]", -libc::ENOENT);
    assert!(printed.contains(&expected), "{output:?}");
    assert!(folder.at("outside/linked").is_dir() && folder.at("renamed").is_file());
    assert_eq!(std::fs::metadata(folder.at("made")).unwrap().mode() & 0o777, 0o750);
    assert_eq!(std::fs::read_dir(&outside.0).unwrap().count(), 0);
    assert!(!Path::new("/made").exists() && !Path::new("/renamed").exists());
}
