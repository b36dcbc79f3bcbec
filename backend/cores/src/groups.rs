//! Control groups (version 2) beneath those of programs, with cpusets.
//!
//! A group of threads stays in the domain of the group above it: its memory and its limits are
//! counted where they were. So nothing but cores changes for who is moved. A path that a journal names
//! is a group's only if the kernel says so of what was opened; nothing is changed anywhere else.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use heliostat_abi::cores::CpuMask;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, CWD};
use rustix::io::Errno;

use crate::root::Root;

/// What version 2 is known by (source: linux/magic.h).
const CGROUP2: u64 = 0x6367_7270;
/// What names of groups that are made here begin with; sixteen digits follow.
const NAME: &str = "heliostat-";
const NAME_DIGITS: usize = 16;

/// How often a group is tried to be removed: threads that end take a moment to leave.
const REMOVE_TRIES: usize = 50;
const REMOVE_WAIT: Duration = Duration::from_millis(2);
/// Passes over threads that go back.
const BACK_PASSES: usize = 8;

/// The folder of a process's group where a cpuset may be made beneath; `None` where none can be.
pub fn group_of(root: &Root, pid: u32) -> Option<String> {
    let mount = mount(root)?;
    let told = root.text(&format!("/proc/{pid}/cgroup"))?;
    let path = told.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end();
    if path.contains("/..") || path.ends_with(" (deleted)") {
        return None;
    }
    let group = format!("{mount}{}", path.trim_end_matches('/'));
    let controllers = fs::read_to_string(Path::new(&group).join("cgroup.controllers")).ok()?;
    let has = controllers.split_whitespace().any(|word| word == "cpuset");
    (has && may_write(&group)).then_some(group)
}

/// Where version 2 is mounted.
pub fn mount(root: &Root) -> Option<String> {
    let told = root.text("/proc/self/mountinfo")?;
    let mut mounted = told.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let is_version_2 = kind.split_whitespace().next() == Some("cgroup2");
        is_version_2.then(|| place.split_whitespace().nth(4)).flatten()
    });
    let mount = mounted.next_back()?.trim_end_matches('/').to_owned();
    Some(root.path(&mount).to_string_lossy().into_owned())
}

fn may_write(folder: &str) -> bool {
    let file = Path::new(folder).join("cgroup.subtree_control");
    rustix::fs::access(file.as_path(), rustix::fs::Access::WRITE_OK).is_ok()
        && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Whether the children of a group have cpusets.
pub fn has_cpusets(group: &str) -> bool {
    let text = fs::read_to_string(Path::new(group).join("cgroup.subtree_control"));
    text.unwrap_or_default().split_whitespace().any(|word| word == "cpuset")
}

/// Hands cpusets to the children of a group, or takes them back.
pub fn hand(group: &str, on: bool) -> io::Result<()> {
    hand_in(&open_group(group)?, on)
}

fn hand_in(group: &OwnedFd, on: bool) -> io::Result<()> {
    put_in(group, "cgroup.subtree_control", if on { "+cpuset" } else { "-cpuset" })
}

/// Makes a group of threads with these cores. One that could not be made whole is not there; one
/// that could not be removed before has other cores from now on.
pub fn make(child: &str, mask: &CpuMask) -> io::Result<()> {
    let folder = Path::new(child);
    let is_new = match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true)?,
    };
    let made = put(&folder.join("cgroup.type"), "threaded")
        .and_then(|()| put(&folder.join("cpuset.cpus"), &mask.to_string()));
    if made.is_err() && is_new {
        let _ = fs::remove_dir(folder);
    }
    made
}

/// Puts a process with all its threads into a group.
pub fn join(group: &str, pid: u32) -> io::Result<()> {
    put(&Path::new(group).join("cgroup.procs"), &pid.to_string())
}

/// Puts every thread of a group that was made here back into the one above, and removes it.
pub fn remove(child: &str) -> io::Result<()> {
    let (above, name) = child.rsplit_once('/').ok_or(Errno::INVAL)?;
    if !is_made_here(name) {
        return Err(Errno::INVAL.into());
    }
    remove_from(&open_group(above)?, name)
}

fn is_made_here(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix(NAME)
        .is_some_and(|digits| digits.len() == NAME_DIGITS && digits.bytes().all(is_digit))
}

fn remove_from(above: &OwnedFd, name: &str) -> io::Result<()> {
    let folder = rustix::fs::openat(above, name, FOLDER, Mode::empty())?;
    for _ in 0..BACK_PASSES {
        let threads = text_in(&folder, "cgroup.threads")?;
        if threads.trim().is_empty() {
            break;
        }
        for thread in threads.split_whitespace() {
            // One that has ended has left by itself.
            let _ = put_in(above, "cgroup.threads", thread);
        }
    }
    for _ in 0..REMOVE_TRIES {
        match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
            Err(Errno::BUSY) => std::thread::sleep(REMOVE_WAIT),
            done => return Ok(done?),
        }
    }
    Err(Errno::BUSY.into())
}

const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder of a control group of version 2; any other is refused, and a path with links as far as the
/// kernel can be asked for that.
fn open_group(path: &str) -> io::Result<OwnedFd> {
    let folder = open_folder(path)?;
    match rustix::fs::fstatfs(&folder)?.f_type as u64 {
        CGROUP2 => Ok(folder),
        _ => Err(Errno::INVAL.into()),
    }
}

fn open_folder(path: &str) -> io::Result<OwnedFd> {
    match rustix::fs::openat2(CWD, path, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A container's filter, or a kernel that has no such call: only the last name may be no link
        // then, and those in the middle are followed.
        Err(Errno::NOSYS | Errno::PERM) => {
            Ok(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

fn open_in(folder: &OwnedFd, name: &str, how: OFlags) -> io::Result<fs::File> {
    let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?.into())
}

fn text_in(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let mut text = String::new();
    open_in(folder, name, OFlags::RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

fn put_in(folder: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    open_in(folder, name, OFlags::WRONLY)?.write_all(text.as_bytes())
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(controllers: &str, path: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("cg/app");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(tree.path().join("proc/self")).unwrap();
        fs::create_dir_all(tree.path().join("proc/7")).unwrap();
        let mounts =
            "30 1 0:5 / /proc rw - proc proc rw\n31 1 0:6 / /cg rw,nosuid - cgroup2 cgroup rw\n";
        fs::write(tree.path().join("proc/self/mountinfo"), mounts).unwrap();
        fs::write(tree.path().join("proc/7/cgroup"), format!("3:cpu:/x\n0::{path}\n")).unwrap();
        fs::write(folder.join("cgroup.controllers"), controllers).unwrap();
        fs::write(folder.join("cgroup.subtree_control"), "").unwrap();
        tree
    }

    #[test]
    fn a_group_with_cpusets_is_found_and_handed_on() {
        let tree = tree("cpu cpuset pids\n", "/app");
        let group = group_of(&Root::below(tree.path()), 7).unwrap();
        assert!(group.ends_with("/cg/app"), "{group}");
        assert!(!has_cpusets(&group));
        hand_in(&open_folder(&group).unwrap(), true).unwrap();
        let told = fs::read_to_string(format!("{group}/cgroup.subtree_control")).unwrap();
        assert_eq!(told, "+cpuset");
    }

    #[test]
    fn no_group_without_cpusets_outside_the_mount_or_without_version_2() {
        let of = |controllers, path| group_of(&Root::below(tree(controllers, path).path()), 7);
        assert_eq!(of("cpu pids\n", "/app"), None);
        assert_eq!(of("cpuset\n", "/../app"), None);
        assert_eq!(of("cpuset\n", "/gone"), None);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(group_of(&Root::below(empty.path()), 7), None);
    }

    /// A folder that looks like a group with a group of ours beneath, and is none.
    fn planted(name: &str) -> (tempfile::TempDir, String) {
        let tree = tempfile::tempdir().unwrap();
        let child = tree.path().join(name);
        fs::create_dir(&child).unwrap();
        fs::write(child.join("cgroup.threads"), "root::0:0::/:/bin/sh\n").unwrap();
        for name in ["cgroup.threads", "cgroup.subtree_control"] {
            fs::write(tree.path().join(name), "of somebody, and long enough").unwrap();
        }
        (tree, child.to_str().unwrap().to_owned())
    }

    #[test]
    fn what_is_no_group_is_neither_written_to_nor_removed() {
        for name in ["heliostat-0123456789abcdef", "heliostat-0123456789abcdeX", "app"] {
            let (tree, child) = planted(name);
            let refused = remove(&child).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(Errno::INVAL.raw_os_error()), "{name}");
            assert!(hand(tree.path().to_str().unwrap(), false).is_err());
            for name in ["cgroup.threads", "cgroup.subtree_control"] {
                let text = fs::read_to_string(tree.path().join(name)).unwrap();
                assert_eq!(text, "of somebody, and long enough");
            }
            assert!(Path::new(&child).exists());
        }
    }

    #[test]
    fn no_link_leads_to_a_group() {
        let (tree, child) = planted("heliostat-0123456789abcdef");
        let above = open_folder(tree.path().to_str().unwrap()).unwrap();
        let link = tree.path().join("heliostat-00000000000000aa");
        std::os::unix::fs::symlink(&child, &link).unwrap();
        assert!(remove_from(&above, "heliostat-00000000000000aa").is_err());
        assert!(open_folder(link.to_str().unwrap()).is_err());
        std::os::unix::fs::symlink("/etc", tree.path().join("etc")).unwrap();
        assert!(open_folder(tree.path().join("etc/ssl").to_str().unwrap()).is_err());
    }

    #[test]
    fn names_that_are_made_here_are_known() {
        assert!(is_made_here("heliostat-0123456789abcdef"));
        for other in
            ["heliostat-", "heliostat-0123456789abcdef0", "heliostat-0123456789ABCDEF", "x"]
        {
            assert!(!is_made_here(other), "{other}");
        }
    }
}
