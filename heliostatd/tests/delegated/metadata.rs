//! Delegated operations on names: what the kernel would do for the same user, and the cache after it.

use std::fs::OpenOptions;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::session::record::Request;

const BLOCK: usize = 64 * 1024;
const EXIST: i64 = -(libc::EEXIST as i64);
const NOENT: i64 = -(libc::ENOENT as i64);

fn bytes(path: &Path) -> &[u8] {
    path.to_str().unwrap().as_bytes()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mode_of_path(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn old(path: &Path) {
    let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
    OpenOptions::new().write(true).open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn a_file_is_made_with_the_permissions_that_the_programs_umask_leaves() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("made");
    let mut session = Delegate::new(&daemon);
    let umask = OwnUmaskOfProgram::read();
    let file = session.open(text(&path), READ | WRITE | CREATE | mode(0o666)).unwrap();
    assert_eq!(mode_of_path(&path), 0o666 & !umask.0);
    assert_eq!(session.write(OpKind::Write, file, 0, b"hello"), 5);
    assert_eq!(session.read(file, 0, 10).2, b"hello");
    let folder = daemon.folder().join("folder");
    assert_eq!(session.names(OpKind::Mkdir, &[bytes(&folder)], 0o777), 0);
    assert_eq!(mode_of_path(&folder), 0o777 & !umask.0);
    assert_eq!(session.names(OpKind::Mkdir, &[bytes(&folder)], 0o777), EXIST);
}

/// The umask of this program, as the kernel tells everybody.
struct OwnUmaskOfProgram(u32);

impl OwnUmaskOfProgram {
    fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
        Self(u32::from_str_radix(line.trim(), 8).unwrap())
    }
}

#[test]
fn an_exclusive_open_makes_the_file_or_says_that_it_is_there() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("once");
    let mut session = Delegate::new(&daemon);
    let once = WRITE | CREATE | EXCLUSIVE | mode(0o600);
    assert!(session.open(text(&path), once).is_ok());
    assert_eq!(session.open(text(&path), once), Err(-EXIST));
    assert!(session.open(text(&path), WRITE | CREATE | mode(0o600)).is_ok());
    let link = daemon.folder().join("link");
    symlink("nowhere", &link).unwrap();
    assert_eq!(session.open(text(&link), once), Err(-EXIST));
    let made = session.open(text(&link), WRITE | CREATE | mode(0o600));
    assert_eq!(made, Err(i64::from(libc::ELOOP)), "nothing is made through a link");
    assert!(!daemon.folder().join("nowhere").exists());
}

#[test]
fn an_open_that_truncates_empties_what_is_cached_and_leased_here() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 2 * BLOCK);
    let (mut reader, mut writer) = (Delegate::new(&daemon), Delegate::new(&daemon));
    let read = reader.open(text(&path), READ).unwrap();
    assert_eq!(reader.read(read, 0, 100).2, [5; 100]);
    assert_eq!(reader.read(read, 0, 100).1, Way::Cached);
    let written = writer.open(text(&path), WRITE | TRUNCATE).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    assert_eq!(reader.read(read, 0, 100).0, 0, "the lease was broken before a byte was gone");
    assert_eq!(writer.write(OpKind::Write, written, 0, b"new"), 3);
    assert_eq!(reader.read(read, 0, 100).2, b"new");
}

#[test]
fn a_truncation_of_an_open_file_stands_in_the_order_of_its_writes() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("file");
    let mut session = Delegate::new(&daemon);
    let file = session.open(text(&path), READ | WRITE | CREATE | mode(0o600)).unwrap();
    session.window.copy_in(0, &[7; 8192]).unwrap();
    for round in 0..50_u64 {
        let write = Operation { kind: OpKind::Write, ..read(file, 0, 8192, 1) };
        let cut = Operation { kind: OpKind::Truncate, object: file, argument: round, ..blank(2) };
        session.submit(&write);
        session.submit(&cut);
        session.submit(&Operation { kind: OpKind::Append, ..read(file, 0, 3, 3) });
        let mut found: Vec<_> = (0..3).map(|_| session.next()).map(|it| it.result).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 3, 8192]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), round + 3);
    }
    assert_eq!(session.on(OpKind::Truncate, file, 1 << 20), 0);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
    let only_read = session.open(text(&path), READ).unwrap();
    assert_eq!(session.on(OpKind::Truncate, only_read, 0), -i64::from(libc::EBADF));
}

#[test]
fn what_was_truncated_and_closed_is_never_read_from_blocks_of_before() {
    let daemon = Daemon::start();
    let path = sample(&daemon, BLOCK);
    let mut session = Delegate::new(&daemon);
    for round in 0..20_u8 {
        old(&path);
        let reader = session.open(text(&path), READ).unwrap();
        session.read(reader, 0, BLOCK as u32);
        assert_eq!(session.on(OpKind::Close, reader, 0), 0);
        let writer = session.open(text(&path), READ | WRITE).unwrap();
        assert_eq!(session.on(OpKind::Truncate, writer, 0), 0);
        assert_eq!(session.write(OpKind::Write, writer, 0, &vec![round; BLOCK]), BLOCK as i64);
        assert_eq!(session.on(OpKind::Close, writer, 0), 0);
        let again = session.open(text(&path), READ).unwrap();
        assert_eq!(session.read(again, 0, 100).2, [round; 100], "the same length as before");
        assert_eq!(session.on(OpKind::Close, again, 0), 0);
    }
}

#[test]
fn a_file_that_is_unlinked_or_replaced_is_read_on_and_its_name_leads_to_the_next() {
    let daemon = Daemon::start();
    let path = sample(&daemon, BLOCK);
    old(&path);
    let other = daemon.folder().join("other");
    write_file(&other, &vec![9; BLOCK]);
    old(&other);
    let mut session = Delegate::new(&daemon);
    let first = session.open(text(&path), READ).unwrap();
    assert_eq!(session.read(first, 0, 100).2, [5; 100]);
    assert_eq!(session.names(OpKind::Rename, &[bytes(&other), bytes(&path)], 0), 0);
    assert_eq!(session.read(first, 0, 100).2, [5; 100]);
    let second = session.open(text(&path), READ).unwrap();
    assert_eq!(session.read(second, 0, 100).2, [9; 100]);
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&path)], 0), 0);
    assert_eq!(session.read(second, 50, 50).2, [9; 50]);
    assert_eq!(session.open(text(&path), READ), Err(-NOENT));
    // The next file by this name may have the number of one that is gone.
    assert_eq!(session.on(OpKind::Close, first, 0), 0);
    assert_eq!(session.on(OpKind::Close, second, 0), 0);
    write_file(&path, &vec![3; BLOCK]);
    old(&path);
    let third = session.open(text(&path), READ).unwrap();
    assert_eq!(session.read(third, 0, 100).2, [3; 100]);
}

#[test]
fn directories_and_names_come_and_go_as_the_kernel_says() {
    let daemon = Daemon::start();
    let at = |name: &str| daemon.folder().join(name);
    let mut session = Delegate::new(&daemon);
    let folder = at("folder");
    assert_eq!(session.names(OpKind::Mkdir, &[bytes(&folder)], 0o700), 0);
    let (inside, beside) = (folder.join("inside"), at("beside"));
    write_file(&inside, b"1");
    write_file(&beside, b"2");
    let not_empty = -i64::from(libc::ENOTEMPTY);
    assert_eq!(session.names(OpKind::Rmdir, &[bytes(&folder)], 0), not_empty);
    assert_eq!(session.names(OpKind::Rmdir, &[bytes(&inside)], 0), -i64::from(libc::ENOTDIR));
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&folder)], 0), -i64::from(libc::EISDIR));
    let both = [bytes(&beside), bytes(&inside)];
    assert_eq!(session.names(OpKind::Rename, &both, NOREPLACE), EXIST);
    assert_eq!(std::fs::read(&inside).unwrap(), b"1");
    assert_eq!(session.names(OpKind::Rename, &both, 0), 0);
    assert_eq!((std::fs::read(&inside).unwrap(), beside.exists()), (b"2".to_vec(), false));
    let moved = at("moved");
    assert_eq!(session.names(OpKind::Rename, &[bytes(&folder), bytes(&moved)], NOREPLACE), 0);
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&moved.join("inside"))], 0), 0);
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&moved.join("inside"))], 0), NOENT);
    assert_eq!(session.names(OpKind::Rmdir, &[bytes(&moved)], 0), 0);
    assert!(!moved.exists());
}

#[test]
fn symbolic_links_are_made_read_renamed_and_removed_and_never_followed_for_it() {
    let daemon = Daemon::start();
    let target = sample(&daemon, 100);
    let [link, renamed] = ["link", "renamed"].map(|name| daemon.folder().join(name));
    let mut session = Delegate::new(&daemon);
    assert_eq!(session.names(OpKind::Symlink, &[b"sample", bytes(&link)], 0), 0);
    assert_eq!(session.names(OpKind::Symlink, &[b"sample", bytes(&link)], 0), EXIST);
    assert_eq!(std::fs::read_link(&link).unwrap(), PathBuf::from("sample"));
    assert_eq!(session.names(OpKind::Rename, &[bytes(&link), bytes(&renamed)], 0), 0);
    let length = bytes(&renamed).len();
    for (room, found) in [(100, &b"sample"[..]), (3, b"sam")] {
        session.window.copy_in(0, bytes(&renamed)).unwrap();
        let pieces = pieces(&[(0, length as u32), (4096, room)]);
        let asked = Operation { kind: OpKind::Readlink, pieces, ..blank(1) };
        assert_eq!(session.run(&asked).result, found.len() as i64);
        let mut bytes = vec![0; found.len()];
        session.window.copy_out(4096, &mut bytes).unwrap();
        assert_eq!(bytes, found);
    }
    assert_eq!(
        session.names(OpKind::Readlink, &[bytes(&target), b"room"], 0),
        -i64::from(libc::EINVAL)
    );
    assert_eq!(session.names(OpKind::Unlink, &[bytes(&renamed)], 0), 0);
    assert!(target.exists() && !renamed.exists());
}

#[test]
fn a_directory_is_read_in_parts_of_any_size_and_every_entry_comes_once() {
    let daemon = Daemon::start();
    let folder = daemon.folder().join("many");
    std::fs::create_dir(&folder).unwrap();
    let mut names: Vec<String> =
        (0..500).map(|n| format!("{n:0>width$}", width = n % 200 + 3)).collect();
    names.iter().for_each(|name| write_file(&folder.join(name), b""));
    std::fs::create_dir(folder.join("folder")).unwrap();
    symlink("x", folder.join("link")).unwrap();
    names.extend(["folder".to_owned(), "link".to_owned()]);
    names.sort();
    let mut session = Delegate::new(&daemon);
    let directory = session.open(text(&folder), READ | DIRECTORY).unwrap();
    for bytes in [ENTRY_BYTES_MAX as u32, 1000, 16000] {
        let (mut found, mut cookie) = (Vec::new(), 0);
        loop {
            let part = session.readdir(directory, cookie, bytes).unwrap();
            let Some(last) = part.last() else { break };
            cookie = last.1;
            found.extend(part);
        }
        let kind = |name: &str| found.iter().find(|(found, ..)| found == name).unwrap().2;
        assert_eq!([kind("folder"), kind("link"), kind(&names[0])], [4, 10, 8]);
        let mut found: Vec<_> = found.into_iter().map(|(name, ..)| name).collect();
        found.sort();
        assert_eq!(found, names, "by {bytes}");
    }
    assert_eq!(session.on(OpKind::Fsync, directory, 0), 0);
    assert_eq!(session.read(directory, 0, 10).0, -i64::from(libc::EISDIR));
    let facts =
        Operation { kind: OpKind::Stat, object: directory, pieces: pieces(&[(0, 64)]), ..blank(1) };
    assert_eq!(session.run(&facts).result, 0);
    let mut bytes = [0; FACTS_BYTES];
    session.window.copy_out(0, &mut bytes).unwrap();
    assert_eq!(Facts::decode(&bytes).inode, std::fs::metadata(&folder).unwrap().ino());
    let plain = session.open(text(&folder.join(&names[0])), READ).unwrap();
    assert_eq!(session.readdir(plain, 0, 1000), Err(-i64::from(libc::ENOTDIR)));
}

#[test]
fn a_file_of_the_buffered_way_is_read_through_the_cache_however_large_the_read() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 16 * BLOCK);
    let mut session = Delegate::new(&daemon);
    let usual = session.open(text(&path), READ).unwrap();
    let buffered = session.open(text(&path), READ | BUFFERED).unwrap();
    let (result, way, _) = session.read(usual, 0, 8 * BLOCK as u32);
    assert_eq!((result, way), (8 * BLOCK as i64, Way::Direct));
    let (result, way, found) = session.read(buffered, 0, 16 * BLOCK as u32);
    assert_eq!((result, way), (16 * BLOCK as i64, Way::Filled));
    assert_eq!(found, vec![5; 16 * BLOCK]);
    assert_eq!(session.read(buffered, 0, 16 * BLOCK as u32).1, Way::Cached);
    // Where no lease vouches for it, the kernel's own cache serves it, and never the device.
    let _writer = OpenOptions::new().write(true).open(&path).unwrap();
    let (result, way, _) = session.read(buffered, 0, 16 * BLOCK as u32);
    assert_eq!((result, way), (16 * BLOCK as i64, Way::Kernel));
    let pid = std::process::id();
    let explained = daemon.visit().text(&Request::Explain { pid });
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let files = explained["delegated"].as_array().unwrap();
    let said: Vec<_> = files.iter().map(|file| file["buffered"].as_bool().unwrap()).collect();
    assert_eq!(said, [false, true]);
    let why = files[1]["why"].as_str().unwrap();
    assert!(why.ends_with("it was opened for the buffered way"), "{why}");
}

#[test]
fn nothing_is_left_open_by_any_of_this() {
    let daemon = Daemon::start();
    serves(&daemon);
    let before = daemon.descriptors();
    let path = sample(&daemon, 100);
    for _ in 0..5 {
        let mut session = Delegate::new(&daemon);
        let made = daemon.folder().join("made");
        session.open(text(&made), WRITE | CREATE | TRUNCATE | mode(0o600)).unwrap();
        session.open(text(daemon.folder()), READ | DIRECTORY).unwrap();
        assert_eq!(session.names(OpKind::Rename, &[bytes(&made), bytes(&path)], NOREPLACE), EXIST);
        assert_eq!(session.names(OpKind::Unlink, &[bytes(&made)], 0), 0);
    }
    await_that("everything is closed", || daemon.descriptors() <= before);
}
