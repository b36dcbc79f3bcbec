//! Files that an ordinary user has opened by name: what the kernel would give that user, and no more.
//!
//! The control plane runs as root; a thread of this test becomes another user before it connects.

use std::os::unix::fs::{chown, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::{READ, WRITE};

/// A user that is neither root nor whoever runs the tests, and a group that it is in.
const NOBODY: u32 = 65534;
const GROUP: u32 = 54321;

const ACCESS: Option<i64> = Some(libc::EACCES as i64);

/// Runs as that user; false where this test may not become it.
fn as_nobody(work: impl FnOnce() + Send) -> bool {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let groups = [GROUP];
            // SAFETY: made directly, each call is about this thread alone; `groups` lives meanwhile.
            let became = unsafe {
                libc::syscall(libc::SYS_setgroups, 1, groups.as_ptr()) == 0
                    && libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0
                    && libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0
            };
            if became {
                work();
            }
            became
        });
        thread.join().unwrap()
    })
}

fn file(daemon: &Daemon, name: &str, owner: (u32, u32), mode: u32) -> PathBuf {
    let path = daemon.folder().join(name);
    std::fs::write(&path, b"bytes").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    // Where it is refused nobody is root, and `as_nobody` says so.
    let _ = chown(&path, Some(owner.0), Some(owner.1));
    path
}

fn errors(session: &mut Delegate, path: &Path) -> [Option<i64>; 2] {
    [READ, READ | WRITE].map(|access| session.open(path.to_str().unwrap(), access).err())
}

/// A daemon whose rules let everybody have everything in its folder.
fn permissive() -> Daemon {
    let names = format!("/file{}/*", place().display());
    let rights = "rights = [\"read\", \"write\"]";
    Daemon::with(&format!("[[rule]]\naction = \"allow\"\n{rights}\nnames = [\"{names}\"]\n"), &[])
}

#[test]
fn rules_or_not_a_user_gets_what_the_kernel_gives_it() {
    let daemon = permissive();
    let own = file(&daemon, "own", (NOBODY, NOBODY), 0o600);
    let public = file(&daemon, "public", (0, 0), 0o644);
    let private = file(&daemon, "private", (0, 0), 0o600);
    let of_group = file(&daemon, "group", (0, GROUP), 0o640);
    let closed = daemon.folder().join("closed");
    std::fs::create_dir(&closed).unwrap();
    let inside = file(&daemon, "closed/own", (NOBODY, NOBODY), 0o666);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    let tested = as_nobody(|| {
        let mut session = Delegate::new(&daemon);
        assert_eq!(errors(&mut session, &own), [None, None]);
        assert_eq!(errors(&mut session, &public), [None, ACCESS]);
        assert_eq!(errors(&mut session, &private), [ACCESS, ACCESS]);
        assert_eq!(errors(&mut session, &of_group), [None, ACCESS], "a further group counts");
        assert_eq!(errors(&mut session, &inside), [ACCESS, ACCESS], "its folder is closed");
    });
    if !tested {
        return eprintln!("skipped: cannot become another user here");
    }
    // The opener has come back to its own rights.
    let mut root = Delegate::new(&daemon);
    assert_eq!(errors(&mut root, &private), [None, None]);
    assert_eq!(errors(&mut root, &inside), [None, None]);
}

#[test]
fn without_a_rule_a_user_gets_its_own_files_only() {
    let daemon = Daemon::start();
    let own = file(&daemon, "own", (NOBODY, NOBODY), 0o600);
    let public = file(&daemon, "public", (0, 0), 0o666);
    let tested = as_nobody(|| {
        let mut session = Delegate::new(&daemon);
        assert_eq!(errors(&mut session, &own), [None, None]);
        assert_eq!(errors(&mut session, &public), [ACCESS, ACCESS]);
        // Shown by its own descriptor, the file is judged all the same.
        let shown = std::fs::File::open(&public).unwrap();
        assert_eq!(session.show(&shown, false).err(), ACCESS);
    });
    if !tested {
        eprintln!("skipped: cannot become another user here");
    }
}
