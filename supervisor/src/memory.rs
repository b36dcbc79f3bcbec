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
    /// The list of processes of the group above, to go back there.
    above: Option<File>,
}

impl MemoryGroup {
    /// Makes one below this process's own; `None` where that is not allowed.
    pub fn make(bytes: u64) -> Option<Self> {
        let lists = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let below = |top: &str, path: &str| Path::new(top).join(path.trim_start_matches('/'));
        let tries = lists.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            match controllers {
                "" => Some((below("/sys/fs/cgroup", path), "memory.max")),
                "memory" => Some((below("/sys/fs/cgroup/memory", path), "memory.limit_in_bytes")),
                _ => None,
            }
        });
        tries.into_iter().find_map(|(above, limit)| Self::try_make(&above, limit, bytes))
    }

    fn try_make(above: &Path, limit: &str, bytes: u64) -> Option<Self> {
        let folder = make_one(above)?;
        let above = File::options().write(true).open(above.join(PROCESSES)).ok();
        let group = Self { folder, above };
        if !group.set(limit, bytes) {
            group.remove();
            return None;
        }
        // Where it can be limited (version 2, or swap accounting), swap is no way out; and version
        // 1 counts the buffers of TCP only where they have a limit of their own.
        group.set("memory.swap.max", 0);
        group.set("memory.memsw.limit_in_bytes", bytes);
        group.set("memory.kmem.tcp.limit_in_bytes", bytes);
        Some(group)
    }

    fn set(&self, name: &str, value: u64) -> bool {
        std::fs::write(self.folder.join(name), value.to_string()).is_ok()
    }

    /// Puts this process, and all it starts, into the group.
    pub fn enter(&self) -> bool {
        std::fs::write(self.folder.join(PROCESSES), "0").is_ok()
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves it, and removes it if nobody else is in it.
    pub fn remove(&self) {
        if let Some(mut above) = self.above.as_ref() {
            let _ = above.write_all(b"0");
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
    fn a_group_that_was_left_behind_is_in_nobodys_way() {
        let above = tempfile::tempdir().expect("a folder");
        let made: Vec<_> = (0..3).filter_map(|_| make_one(above.path())).collect();
        assert_eq!(made.len(), 3);
        assert!(made.iter().all(|folder| folder.is_dir()) && made[0] != made[1]);
        assert_eq!(make_one(&above.path().join("none")), None);
    }
}
