//! On whose behalf a call is answered: a program that has become another user is judged as that user.
//!
//! Only programs of root's become others, and only where their policy names users (`identity`). Ids are
//! each thread's own in the kernel, so that the thread which answers takes the caller's meanwhile:
//! the effective user and group, by which files are judged, to whom new ones belong and which the other
//! end of a unix socket is told, and the supplementary groups. The real user stays root, which is the
//! way back. Of its rights the thread keeps those to look into the program's processes and to change
//! ids; what the supervisor does for itself in between, it does `as_supervisor`.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use heliostat_base::sys::Errno;
use rustix::process::Gid;

use crate::acting;
use crate::errno::errno;
use crate::proc::read_proc;

/// The ids by which files are judged (credentials(7)).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ids {
    user: u32,
    group: u32,
    /// In rising order, as the kernel keeps them.
    groups: Vec<u32>,
}

/// Whether callers may have other ids than the supervisor.
#[derive(Debug)]
pub struct Behalf {
    own: Ids,
    has_begun: AtomicBool,
}

/// While it lives, this thread has the ids of a caller.
pub struct Acting<'a>(&'a Ids);

/// A thread's ids for files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileIds {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

impl FileIds {
    /// Those of a thread at this moment; none when it is gone.
    pub fn of(proc: &OwnedFd, thread: i32) -> Option<Self> {
        let Ids { user, group, .. } = Ids::of(proc, thread, false)?;
        Some(Self { user, group })
    }
}

impl Behalf {
    /// Reads the ids of this process, before its calls are limited. `None` for who is not root: nobody
    /// becomes another there.
    pub fn of_root() -> Option<Self> {
        let user = rustix::process::geteuid();
        let groups = rustix::process::getgroups().ok()?;
        let mut groups: Vec<u32> = groups.into_iter().map(Gid::as_raw).collect();
        groups.sort_unstable();
        let own = Ids { user: user.as_raw(), group: rustix::process::getegid().as_raw(), groups };
        user.is_root().then(|| Self { own, has_begun: AtomicBool::new(false) })
    }

    /// Takes down that a caller is about to change its ids: from now on each is asked for them.
    pub fn begins(&self) {
        self.has_begun.store(true, SeqCst);
    }

    /// Takes the ids of a thread that waits, if they are not this process's own; the real ones where
    /// `real` says so. `check` tells whether the thread still waits.
    ///
    /// # Errors
    /// ESRCH if the thread is gone; what the kernel says where the ids cannot be taken: then nothing
    /// is done on its behalf.
    pub fn take(
        &self,
        proc: &OwnedFd,
        thread: i32,
        real: bool,
        check: impl Fn() -> Result<(), Errno>,
    ) -> Result<Option<Acting<'_>>, Errno> {
        if !self.has_begun.load(SeqCst) {
            return Ok(None);
        }
        let wanted = Ids::of(proc, thread, real).ok_or(Errno(libc::ESRCH))?;
        // What was read is the thread's if it still waits, and stays so: only it can change it.
        check()?;
        if wanted == self.own {
            return Ok(None);
        }
        let guard = Acting(&self.own);
        acting::begin();
        let groups: Vec<_> = wanted.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        rustix::thread::set_thread_groups(&groups).map_err(errno)?;
        let group = Gid::from_raw(wanted.group);
        rustix::thread::set_thread_res_gid(None, group, None).map_err(errno)?;
        if wanted.user != self.own.user {
            acting::begin_for(wanted.user)?;
        }
        Ok(Some(guard))
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        let groups: Vec<_> = self.0.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        // The user first, which brings the rights back.
        let back = acting::end(self.0.user)
            .and_then(|()| {
                rustix::thread::set_thread_res_gid(None, Gid::from_raw(self.0.group), None)
            })
            .and_then(|()| rustix::thread::set_thread_groups(&groups));
        acting::or_end(back.map_err(errno));
    }
}

impl Ids {
    /// Those of a thread: of the file system's, or the real ones (proc_pid_status(5)).
    fn of(proc: &OwnedFd, thread: i32, real: bool) -> Option<Self> {
        let status = read_proc(proc, &format!("{thread}/status"))?;
        Self::read(&String::from_utf8_lossy(&status), real)
    }

    fn read(status: &str, real: bool) -> Option<Self> {
        let numbers = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u32>>>()
        };
        // Real, effective, saved, of the file system.
        let column = if real { 0 } else { 3 };
        let one = |name| numbers(name)?.get(column).copied();
        let mut groups = numbers("Groups:")?;
        groups.sort_unstable();
        Some(Self { user: one("Uid:")?, group: one("Gid:")?, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tUid:\nUid:\t0\t1\t2\t33\nGid:\t4\t5\t6\t34\nGroups:\t40 7 \n";

    #[test]
    fn a_threads_ids_are_those_of_the_file_system_or_the_real_ones() {
        let of_files = Ids { user: 33, group: 34, groups: vec![7, 40] };
        assert_eq!(Ids::read(STATUS, false), Some(of_files));
        let real = Ids { user: 0, group: 4, groups: vec![7, 40] };
        assert_eq!(Ids::read(STATUS, true), Some(real));
        assert_eq!(Ids::read("Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n", false), None);
    }
}
