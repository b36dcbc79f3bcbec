//! Limits of all processes of a sealed program together: how many, and how much memory.
//!
//! Processes and threads are counted here, since each asks before it is born. Memory is a control
//! group's to count (cgroups(7)); who may not make one gets the kernel's limit for one process
//! instead (RLIMIT_DATA), which does not count shared memory: that much is said to the user.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::tree;

/// How many more there may be.
#[derive(Debug)]
pub struct Births {
    most: Option<u32>,
    /// Births until they are counted again; those who end in between are found then.
    room: AtomicU32,
}

impl Births {
    /// `most` processes and threads; none: no limit.
    pub fn new(most: Option<u32>) -> Self {
        Self { most, room: AtomicU32::new(0) }
    }

    /// Whether there may be one more; takes its place.
    pub fn take_one(&self) -> bool {
        let Some(most) = self.most else { return true };
        if self.room.fetch_update(SeqCst, SeqCst, |room| room.checked_sub(1)).is_ok() {
            return true;
        }
        let room = most.saturating_sub(tree::tasks());
        self.room.store(room.saturating_sub(1), SeqCst);
        room > 0
    }
}

/// A control group for one sealed program.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes one below this process's own; `None` where that is not allowed.
    pub fn make(bytes: u64) -> Option<Self> {
        let lists = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let below = |top: &str, path: &str| {
            Path::new(top).join(path.trim_start_matches('/')).join(group_name())
        };
        let tries = lists.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            match controllers {
                "" => Some((below("/sys/fs/cgroup", path), "memory.max")),
                "memory" => Some((below("/sys/fs/cgroup/memory", path), "memory.limit_in_bytes")),
                _ => None,
            }
        });
        tries.into_iter().find_map(|(folder, limit)| Self::try_make(folder, limit, bytes))
    }

    fn try_make(folder: PathBuf, limit: &str, bytes: u64) -> Option<Self> {
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        if std::fs::write(group.0.join(limit), bytes.to_string()).is_err() {
            group.remove();
            return None;
        }
        // Where it can be limited (version 2, or swap accounting), swap is no way out.
        let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
        let _ = std::fs::write(group.0.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        Some(group)
    }

    /// Puts this process, and all it starts, into the group.
    pub fn enter(&self) -> bool {
        std::fs::write(self.0.join("cgroup.procs"), "0").is_ok()
    }
}

impl MemoryGroup {
    /// Removes it, if it is empty.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn group_name() -> String {
    format!("heliostat-sealed-{}", std::process::id())
}

/// Memory of each process by itself, where there is no control group. Shared memory is not in it.
pub fn limit_each(bytes: u64) -> rustix::io::Result<()> {
    setrlimit(Resource::Data, Rlimit { current: Some(bytes), maximum: Some(bytes) })
}

/// Lets this process have as many descriptors as it may; what it had before.
pub fn raise_descriptors() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// For the program, which may make tables of that size.
pub fn restore_descriptors(before: Rlimit) {
    let _ = setrlimit(Resource::Nofile, before);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limit_everybody_is_born() {
        assert!(Births::new(None).take_one());
    }

    #[test]
    fn room_is_taken_and_counted_again() {
        let births = Births::new(Some(tree::tasks() + 3));
        let born = (0..10).filter(|_| births.take_one()).count();
        // Nobody was born in earnest, so that each count finds room for three.
        assert_eq!(born, 10);
        assert!(!Births::new(Some(0)).take_one());
    }
}
