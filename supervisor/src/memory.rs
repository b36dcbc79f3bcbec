//! A control group for the memory of one sealed program (cgroups(7)).
//!
//! Its supervisor is in it too: what it sends, copies and makes for the program is charged to the
//! group of whoever does it, and would be nobody's otherwise. When memory runs out, the program's
//! processes are ended before the supervisor. Who may not make a group gets the kernel's limit for
//! one process instead (`limits`), which does not count shared memory: that much is said.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use heliostat_base::sys::Errno;

use crate::limits;

/// How much sooner than its supervisor a program is ended (proc(5), oom_score_adj), in thousandths
/// of the memory that there is.
const SOONER: i32 = 500;
const SOONEST: i32 = 1000;
const SCORE: &str = "/proc/self/oom_score_adj";
const PROCESSES: &str = "cgroup.procs";
/// Groups with one process's number.
const PLACES_MAX: usize = 64;

/// The group.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    /// The list of processes of the group that this process was in, to go back there.
    before: Option<File>,
}

/// Where a group may be made, and what it is limited by.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GroupParent {
    above: PathBuf,
    limit: &'static str,
    /// The group that this process is in.
    own: PathBuf,
}

/// Below this process's own group, or beside it: a group of version 2 that has processes of its own
/// hands no controller on to those below it (cgroups(7), "no internal processes"), but for the top.
/// Beside it an ordinary user may make one where what is above was delegated, as that of a user's
/// service manager is; then the limits of what is above hold.
fn places(lists: &str) -> Vec<GroupParent> {
    let below = |top: &str, path: &str| Path::new(top).join(path.trim_start_matches('/'));
    let of_line = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let place = |own: PathBuf, limit| GroupParent { above: own.clone(), limit, own };
        match controllers {
            "memory" => {
                let own = below("/sys/fs/cgroup/memory", path);
                Some(vec![place(own, "memory.limit_in_bytes")])
            }
            "" => {
                let first = place(below("/sys/fs/cgroup", path), "memory.max");
                let above = first.own.parent().filter(|_| path != "/").map(Path::to_owned);
                let beside = above.map(|above| GroupParent { above, ..first.clone() });
                Some([Some(first), beside].into_iter().flatten().collect())
            }
            _ => None,
        }
    };
    lists.lines().filter_map(of_line).flatten().collect()
}

impl MemoryGroup {
    /// Makes one; `None` where that is not allowed.
    pub fn make(bytes: u64) -> Option<Self> {
        let lists = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        places(&lists).iter().find_map(|place| Self::try_make(place, bytes))
    }

    fn try_make(place: &GroupParent, bytes: u64) -> Option<Self> {
        let folder = make_one(&place.above)?;
        let before = File::options().write(true).open(place.own.join(PROCESSES)).ok();
        let group = Self { folder, before };
        if !group.set(place.limit, bytes) {
            // Handed on to whoever is below, where nobody has yet.
            write_to(&place.above.join("cgroup.subtree_control"), "+memory");
            if !group.set(place.limit, bytes) {
                group.remove();
                return None;
            }
        }
        // Where it can be limited (version 2, or swap accounting), swap is no way out; and version
        // 1 counts the buffers of TCP only where they have a limit of their own.
        group.set("memory.swap.max", 0);
        group.set("memory.memsw.limit_in_bytes", bytes);
        group.set("memory.kmem.tcp.limit_in_bytes", bytes);
        Some(group)
    }

    fn set(&self, name: &str, value: u64) -> bool {
        write_to(&self.folder.join(name), &value.to_string())
    }

    /// Puts this process, and all it starts, into the group.
    pub fn enter(&self) -> bool {
        write_to(&self.folder.join(PROCESSES), "0")
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves it, and removes it if nobody else is in it.
    pub fn remove(&self) {
        if let Some(mut before) = self.before.as_ref() {
            let _ = before.write_all(b"0");
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The group of a sealed program, entered; `None` where there is none to enter.
pub fn enter(bytes: u64) -> Option<MemoryGroup> {
    let group = MemoryGroup::make(bytes)?;
    if group.enter() {
        return Some(group);
    }
    group.remove();
    None
}

/// The program's side: what is ended first, or the limit of each process.
///
/// # Errors
/// Those of setrlimit(2).
pub fn limit_program(group: Option<&MemoryGroup>, bytes: u64) -> Result<(), Errno> {
    if group.is_none() {
        return limits::limit_each(bytes).map_err(|error| Errno(error.raw_os_error()));
    }
    let own: i32 =
        std::fs::read_to_string(SCORE).ok().map_or(0, |text| text.trim().parse().unwrap_or(0));
    let _ = std::fs::write(SCORE, (own + SOONER).min(SOONEST).to_string());
    Ok(())
}

/// Writes to a file that is there: none is made.
fn write_to(file: &Path, text: &str) -> bool {
    let opened = File::options().write(true).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).is_ok()
}

/// Makes a group that nobody else has: a supervisor that was killed has left its own behind, and
/// other pid namespaces have the same numbers.
fn make_one(above: &Path) -> Option<PathBuf> {
    for number in 0..PLACES_MAX {
        let folder = above.join(format!("heliostat-sealed-{}-{number}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.ok().map(|()| folder),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_below_the_own_one_or_beside_it() {
        let said = |lists: &str| -> Vec<(PathBuf, &str, PathBuf)> {
            places(lists).into_iter().map(|one| (one.above, one.limit, one.own)).collect()
        };
        let path = |text: &str| PathBuf::from(text);
        let own = path("/sys/fs/cgroup/user.slice/a.scope");
        let above = path("/sys/fs/cgroup/user.slice");
        let both = [(own.clone(), "memory.max", own.clone()), (above, "memory.max", own)];
        assert_eq!(said("0::/user.slice/a.scope\n"), both);
        let top = path("/sys/fs/cgroup/");
        assert_eq!(said("0::/\n"), [(top.clone(), "memory.max", top)]);
        let first = path("/sys/fs/cgroup/memory/a");
        let found = said("8:pids:/\n4:memory:/a\n1:name=systemd:/b\n");
        assert_eq!(found, [(first.clone(), "memory.limit_in_bytes", first)]);
    }

    #[test]
    fn nothing_is_left_where_memory_cannot_be_limited() {
        let above = tempfile::tempdir().expect("a folder");
        let place = GroupParent {
            above: above.path().into(),
            limit: "memory.max",
            own: above.path().into(),
        };
        assert!(MemoryGroup::try_make(&place, 1 << 20).is_none());
        assert_eq!(std::fs::read_dir(above.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn a_group_that_was_left_behind_is_in_nobodys_way() {
        let above = tempfile::tempdir().expect("a folder");
        let made: Vec<_> = (0..3).filter_map(|_| make_one(above.path())).collect();
        assert_eq!(made.len(), 3);
        assert!(made.iter().all(|folder| folder.is_dir()) && made[0] != made[1]);
        assert_eq!(make_one(&above.path().join("none")), None);
    }
}
