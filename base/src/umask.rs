//! The umask of one thread alone.
//!
//! Threads of a process share theirs (with the root folder and the working directory), so that one
//! that makes files for somebody would change what all others make. A thread that has parted from
//! them sets its own. Whose it is to be is the caller's business.

use crate::sys::{check, raw, Errno, Sysno};

/// The umask of the calling thread, which shares it with no other. Not to be sent to another.
#[derive(Debug)]
pub struct OwnUmask(std::marker::PhantomData<*const ()>);

impl OwnUmask {
    /// Parts this thread from the others, for good. It keeps root folder and working directory.
    ///
    /// # Errors
    /// ENOMEM, or EPERM where a filter forbids unshare(2); nothing has changed then.
    pub fn part() -> Result<OwnUmask, Errno> {
        // SAFETY: unshare takes no pointer. CLONE_FS gives this thread a copy of what it has shared,
        // which no code relies on being shared: nothing here changes its root or working directory.
        check(unsafe { raw(Sysno::unshare as usize, [libc::CLONE_FS as usize, 0, 0, 0, 0, 0]) })?;
        Ok(OwnUmask(std::marker::PhantomData))
    }

    /// Sets it; only the permission bits count.
    pub fn set(&self, mask: u32) {
        // SAFETY: umask takes no pointer, and never fails.
        let _ = unsafe { raw(Sysno::umask as usize, [mask as usize, 0, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    /// Permissions of a file that is made with all of them.
    fn made(name: &str) -> u32 {
        let name = format!("heliostat-umask-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o777).open(&path).expect("made");
        let _ = std::fs::remove_file(&path);
        file.metadata().expect("open").permissions().mode() & 0o777
    }

    /// Whether unshare(2) is refused whatever it is asked for, as the default filters of containers
    /// have it do: asked for nothing it does nothing.
    fn refuses_parting() -> bool {
        // SAFETY: the call takes no pointer, and is asked for nothing.
        let is_refused = check(unsafe { raw(Sysno::unshare as usize, [0; 6]) }).is_err();
        if is_refused {
            println!("skipped: unshare(2) is refused here");
        }
        is_refused
    }

    #[test]
    fn a_thread_that_has_parted_changes_nothing_for_the_others() {
        if refuses_parting() {
            return assert!(OwnUmask::part().is_err());
        }
        let before = made("before");
        let there = std::thread::spawn(|| {
            let own = OwnUmask::part().expect("allowed");
            [0o777, 0].map(|mask| {
                own.set(mask);
                made("there")
            })
        });
        assert_eq!(there.join().expect("no panic"), [0, 0o777]);
        assert_eq!(made("after"), before);
    }
}
