//! After a crash of the machine: logs of durable files are put into their files before programs come.
//!
//! ```text
//! start --> [[durable]] log = FILE ----------> a thread: its owner's rights --> recovered, or told
//! store opened --> areas with such entries --> threads for each user's, whose rights they have
//!                                              nobody else opens them to write until that has ended
//! ```
//! What an entry names the program has written down, so files are opened with no more rights than that
//! program's user has. A file may take as long as it likes (a dead server): it keeps nobody waiting but
//! who wants that very log.

use std::os::fd::BorrowedFd;
use std::path::Path;

use heliostat_abi::store::Piece;
use heliostat_backend_block::{
    AreaDevice, Durability, Extents, FileDevice, Options, Run, SharedFile,
};
use heliostat_backend_durable::{self as durable, Boot, Outcome, What};
use heliostat_backend_log::{Area, Log};
use tracing::{error, info, warn};

use crate::kernel;

mod areas;
mod rights;

pub use areas::{recover_areas, LeftLog, Recovering};

/// What recovery has come to, or why there was none.
type Told = Result<Outcome, String>;

/// Where an area lies, as devices name it.
pub fn runs(pieces: &[Piece]) -> Vec<Run> {
    pieces.iter().map(|piece| Run { offset: piece.offset, bytes: piece.bytes }).collect()
}

/// Whether the log in an area is such a one. What is no log, or damaged, is left to who opens it.
pub fn is_left(file: &SharedFile, runs: &[Run]) -> bool {
    let device = file.device(options(None)).ok().and_then(|device| in_area(device, runs));
    let (Ok(boot), Some((device, area))) = (Boot::now(), device) else { return false };
    durable::is_left_by_crash(Box::new(device), area, &boot).unwrap_or(false)
}

/// Recovers the log of durable files in the file that the configuration names, if it is there.
pub fn recover_file(path: &Path) {
    let path = path.to_owned();
    start("recover-log", move || {
        let told = apart(None, || recover_file_of(&path));
        say(&path.display().to_string(), told);
    });
}

/// In a thread that ends with it. To ask whose it is may take as long as to open it.
fn recover_file_of(path: &Path) -> Told {
    let Some(owner) = rights::Owned::at(path) else { return Ok(Outcome::default()) };
    if owner.is_shared {
        return Err("others than its owner may write it: `heliostat recover` decides".into());
    }
    rights::become_user(owner.uid)?;
    match durable::open_to_recover(path) {
        Ok(opened) if !opened.own[0].is_some_and(|file| owner.is_open_as(file)) => {
            Err("it is another file than the one whose owner was asked for".into())
        }
        Ok(opened) => recover(&opened.log),
        // A program that runs has recovered it.
        Err(why) if why.is_in_use() => Ok(Outcome::default()),
        Err(why) => Err(why.to_string()),
    }
}

/// An area as a device, and all of it.
fn in_area(device: FileDevice, runs: &[Run]) -> Option<(AreaDevice<FileDevice>, Area)> {
    let extents = Extents::new(runs.to_vec())?;
    let bytes = runs.iter().map(|run| run.bytes).sum();
    Some((AreaDevice::new(device, extents).ok()?, Area { offset: 0, bytes }))
}

fn options(durability: Option<Durability>) -> Options {
    Options { depth: 8, durability, ..Options::default() }
}

/// Puts what a log has into the files.
fn recover(log: &Log) -> Told {
    let boot = Boot::now().map_err(|error| error.to_string())?;
    let outcome = durable::recover(log, &boot, false).map_err(|error| error.to_string())?;
    // Where it is not closed the next opening reads a little more.
    let _ = log.close();
    Ok(outcome)
}

/// Says what became of each file.
fn say(name: &str, told: Told) {
    let outcome = match told {
        Ok(outcome) => outcome,
        Err(why) => return error!(log = name, why, "a log of durable files is not recovered"),
    };
    for file in &outcome.files {
        let (path, what) = (file.path.display(), file.what);
        match what {
            What::Restored { .. } => info!(log = name, file = %path, %what, "recovered"),
            what if what.is_refused() => {
                warn!(log = name, file = %path, %what, "not recovered: `heliostat recover` decides");
            }
            _ => {}
        }
    }
}

/// Does something in a thread whose descriptors are its own, but for one: it may hang where nobody can kill
/// it, and the process's own, its socket first of all, are not to stay open with it when that has ended. What
/// is told is for the caller to say: the thread has no log.
fn apart(kept: Option<BorrowedFd<'_>>, what: impl FnOnce() -> Told + Send) -> Told {
    std::thread::scope(|scope| {
        let parted = move || {
            kernel::part_descriptors(kept);
            what()
        };
        let thread =
            std::thread::Builder::new().name("recovery".into()).spawn_scoped(scope, parted);
        let thread = thread.map_err(|error| error.to_string())?;
        thread.join().unwrap_or_else(|_| Err("its thread has failed".into()))
    })
}

fn start(name: &str, what: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(what) {
        error!(%error, "a log of durable files is not recovered");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{chown, PermissionsExt};
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use heliostat_backend_durable::entry::Head;
    use heliostat_base::call::birth;

    use super::*;

    const NOBODY: u32 = 65534;
    const LONG_AGO: Duration = Duration::from_secs(1000);

    struct Scene {
        folder: PathBuf,
        log: PathBuf,
        file: PathBuf,
    }

    impl Scene {
        /// A file that a crash has left empty, and a log that has what it had.
        fn new(name: &str) -> Scene {
            let own = format!("heliostatd-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(own);
            std::fs::create_dir(&folder).expect("a folder");
            let (log, file) = (folder.join("log"), folder.join("file"));
            let made = File::create_new(&file).expect("made");
            made.set_modified(SystemTime::UNIX_EPOCH + LONG_AGO).expect("set");
            durable::create(&log, 1 << 20).expect("made");
            let opened = durable::open(&log, None).expect("opened");
            let (which, _) = birth(made.as_raw_fd()).expect("told");
            let (path, when) = (file.as_os_str().as_bytes(), LONG_AGO.as_secs() as u32);
            let head = Head { boot: [1; 16], file: which, offset: 0, when, path };
            let entry = [&head.encode()[..], path, b"kept"].concat();
            opened.log.append_sync(&entry).expect("appended");
            opened.log.close().expect("closed");
            Scene { folder, log, file }
        }

        /// The file's bytes after recovery by a thread with its owner's rights.
        fn recovered(&self) -> Vec<u8> {
            let _ = apart(None, || recover_file_of(&self.log));
            std::fs::read(&self.file).expect("read")
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn what_a_crash_has_left_in_a_log_goes_into_its_file() {
        let scene = Scene::new("own");
        assert_eq!(scene.recovered(), b"kept");
        assert_eq!(scene.recovered(), b"kept", "and the log is empty");
    }

    #[test]
    fn a_users_log_writes_no_file_that_its_user_may_not_write() {
        let scene = Scene::new("others");
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::fs::set_permissions(&scene.file, PermissionsExt::from_mode(0o600)).expect("set");
        chown(&scene.log, Some(NOBODY), Some(NOBODY)).expect("given");
        assert_eq!(scene.recovered(), b"");
        chown(&scene.folder, Some(NOBODY), None).expect("given");
        chown(&scene.file, Some(NOBODY), None).expect("given");
        assert_eq!(scene.recovered(), b"kept", "the log has kept it");
    }

    #[test]
    fn a_log_that_others_may_write_does_nothing_with_its_owners_rights() {
        let scene = Scene::new("shared");
        std::fs::set_permissions(&scene.log, PermissionsExt::from_mode(0o620)).expect("set");
        assert_eq!(scene.recovered(), b"");
        std::fs::set_permissions(&scene.log, PermissionsExt::from_mode(0o600)).expect("set");
        assert_eq!(scene.recovered(), b"kept");
    }

    #[test]
    fn of_logs_in_areas_only_those_are_left_that_an_earlier_run_of_the_machine_has_written() {
        let scene = Scene::new("left");
        let run = Run { offset: 0, bytes: 1 << 20 };
        let device =
            heliostat_backend_block::FileDevice::open_to_read(&scene.log, Options::default());
        let shared = device.expect("opened").shared();
        assert!(is_left(&shared, &[run]));
        scene.recovered();
        assert!(!is_left(&shared, &[run]));
        assert!(!is_left(&shared, &[Run { offset: 4096, ..run }]), "no log begins there");
    }
}
