//! Control groups (version 2) beneath those of programs, with cpusets.
//!
//! A group of threads stays in the domain of the group above it: its memory and its limits are
//! counted where they were. So nothing but cores changes for who is moved.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heliostat_abi::cores::CpuMask;

use crate::root::Root;

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
    let text = if on { "+cpuset" } else { "-cpuset" };
    put(&Path::new(group).join("cgroup.subtree_control"), text)
}

/// Makes a group of threads with these cores. One that could not be made whole is not there.
pub fn make(child: &str, mask: &CpuMask) -> io::Result<()> {
    let folder = Path::new(child);
    fs::create_dir(folder)?;
    let made = put(&folder.join("cgroup.type"), "threaded")
        .and_then(|()| put(&folder.join("cpuset.cpus"), &mask.to_string()));
    if made.is_err() {
        let _ = fs::remove_dir(folder);
    }
    made
}

/// Puts a process with all its threads into a group.
pub fn join(group: &str, pid: u32) -> io::Result<()> {
    put(&Path::new(group).join("cgroup.procs"), &pid.to_string())
}

/// Puts every thread of a group back into the one above, and removes it.
pub fn remove(child: &str) -> io::Result<()> {
    let folder = PathBuf::from(child);
    let above = folder.parent().unwrap_or(Path::new("/")).join("cgroup.threads");
    for _ in 0..BACK_PASSES {
        let threads = fs::read_to_string(folder.join("cgroup.threads"))?;
        if threads.trim().is_empty() {
            break;
        }
        for thread in threads.split_whitespace() {
            // One that has ended has left by itself.
            let _ = put(&above, thread);
        }
    }
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(REMOVE_WAIT);
            }
            done => return done,
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
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
        hand(&group, true).unwrap();
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
}
