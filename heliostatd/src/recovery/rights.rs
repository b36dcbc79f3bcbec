//! The rights of one thread: those of the user whose files it writes.
//!
//! The kernel keeps rights by thread, and only libraries spread a change to all of a process; so a thread
//! that ends with its task can give up those of the superuser for good.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use heliostat_base::call;
use rustix::process::{geteuid, Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

const OTHERS_WRITE: u32 = 0o022;
const USERS: &str = "/etc/passwd";
/// The group of a user that the machine has no entry of.
const NO_GROUP: u32 = 65534;

/// A file, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owned {
    /// The user.
    pub uid: u32,
    /// Whether others may write it.
    pub is_shared: bool,
    device: u64,
    inode: u64,
}

impl Owned {
    /// The file at this path; nothing where it is not there, or a link somewhere else.
    pub fn at(path: &Path) -> Option<Owned> {
        let found = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let is_shared = found.mode() & OTHERS_WRITE != 0;
        Some(Owned { uid: found.uid(), is_shared, device: found.dev(), inode: found.ino() })
    }

    /// Whether this descriptor has the same file open. Whoever owns a folder on the path may have put
    /// another file there meanwhile, which is to be read with its own owner's rights.
    pub fn is_open_as(&self, fd: i32) -> bool {
        call::birth(fd)
            .is_some_and(|(which, _)| (which.device, which.inode) == (self.device, self.inode))
    }
}

/// Gives this thread the rights of a user, and no others any more.
///
/// # Errors
/// It is another user's than this process's, which is no superuser's; or the kernel says no.
pub fn become_user(uid: u32) -> Result<(), String> {
    let own = geteuid();
    if own.as_raw() == uid {
        return Ok(());
    }
    if !own.is_root() {
        return Err(format!(
            "it is user {uid}'s, and the control plane is user {own}'s",
            own = own.as_raw()
        ));
    }
    let (gid, uid) = (Gid::from_raw(group_of(uid)), Uid::from_raw(uid));
    set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid))
        .map_err(|error| {
            format!("the kernel does not give user {}'s rights: {error}", uid.as_raw())
        })
}

/// The user's first group.
fn group_of(uid: u32) -> u32 {
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    group_in(&users, uid).unwrap_or(NO_GROUP)
}

/// From lines "name:password:uid:gid:...".
fn group_in(users: &str, uid: u32) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse() == Ok(uid)).then(|| fields.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    const NOBODY: u32 = 65534;

    #[test]
    fn a_users_group_is_found_by_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:100:Ada:/:/bin/sh\n";
        assert_eq!((group_in(users, 1000), group_in(users, 0)), (Some(100), Some(0)));
        assert_eq!(group_in(users, 7), None);
    }

    #[test]
    fn a_file_that_was_put_in_anothers_place_is_recognised() {
        let path = std::env::temp_dir().join(format!("heliostatd-owned-{}", std::process::id()));
        std::fs::write(&path, "one").expect("written");
        let (owned, one) = (Owned::at(&path).expect("there"), File::open(&path).expect("open"));
        let other = path.with_extension("other");
        std::fs::write(&other, "two").expect("written");
        std::fs::rename(&other, &path).expect("moved");
        let two = File::open(&path).expect("open");
        assert!(owned.is_open_as(one.as_raw_fd()) && !owned.is_open_as(two.as_raw_fd()));
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("made");
        assert_eq!(Owned::at(&path), None);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_thread_that_becomes_a_user_has_only_that_ones_rights_and_others_keep_theirs() {
        if !geteuid().is_root() {
            assert!(become_user(geteuid().as_raw() + 1).is_err());
            return;
        }
        let secret = std::env::temp_dir().join(format!("heliostatd-secret-{}", std::process::id()));
        std::fs::write(&secret, "s").expect("written");
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("changed");
        let path = secret.clone();
        let read = std::thread::spawn(move || {
            become_user(NOBODY).expect("allowed");
            let is_back = become_user(0).is_ok();
            (std::fs::read(&path).is_ok(), is_back)
        });
        assert_eq!(read.join().expect("ended"), (false, false));
        assert!(std::fs::read(&secret).is_ok() && geteuid().is_root());
        std::fs::remove_file(secret).expect("removed");
    }
}
