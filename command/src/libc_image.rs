//! The image of libc that the processes of sealed programs map instead of patching libc each for
//! itself: made once for each libc and stub, beside the list of libc's system calls.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heliostat_abi::place::{SOCKET_VARIABLE, WRITE_IMAGE_VARIABLE};

/// Images of one libc that are kept: of the stubs of several builds or packages.
const KEPT: usize = 3;

/// The image for this stub, made if there is none. `list` is that of libc. Without one everything
/// works, more slowly.
pub fn image(stub: &Path, list: &Path) -> Option<PathBuf> {
    let about = fs::metadata(stub).ok()?;
    let changed_ns = about.ctime().wrapping_mul(1_000_000_000).wrapping_add(about.ctime_nsec());
    let libc = list.file_stem()?.to_str()?;
    let folder = list.parent()?;
    let path = folder.join(format!("{libc}-{:x}-{changed_ns:x}{END}", about.ino()));
    if let Ok(found) = path.symlink_metadata() {
        return (found.len() > 0).then_some(path);
    }
    // Inside of a sealed program nothing is made.
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).ok()?;
    remove_oldest(folder, libc);
    if make(stub, &path) {
        return Some(path);
    }
    // An empty one says that it need not be tried again.
    let _ = fs::File::options().write(true).create_new(true).open(&path);
    None
}

const END: &str = ".image";

/// Has the stub make it, in a process in which it is loaded as in all others.
fn make(stub: &Path, path: &Path) -> bool {
    let Ok(own) = std::env::current_exe() else { return false };
    let mut command = Command::new(own);
    // Whatever the stub needs is in its own variable; what the program would do is never done.
    command.arg("--version").env_clear().env("LD_PRELOAD", stub);
    command.env(SOCKET_VARIABLE, path).env(WRITE_IMAGE_VARIABLE, path);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()) && path.is_file()
}

/// Leaves room for one more of this libc. Processes that have mapped an image keep it.
fn remove_oldest(folder: &Path, libc: &str) {
    let is_one = |name: &str| name.starts_with(libc) && name.ends_with(END);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let images = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_one));
    let mut all: Vec<_> = images
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    all.sort();
    let surplus = (all.len() + 1).saturating_sub(KEPT);
    for (_, path) in all.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_images_of_a_libc_are_kept_and_those_of_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let names =
            ["ab-1.image", "ab-2.image", "ab-3.image", "ab-4.image", "cd-1.image", "ab.sites"];
        for (number, name) in names.iter().enumerate() {
            let file = fs::File::create(path(name)).expect("a file");
            let age = std::time::Duration::from_secs(100 - number as u64);
            file.set_modified(std::time::SystemTime::now() - age).expect("its time");
        }
        remove_oldest(folder.path(), "ab");
        let there: Vec<_> = names.iter().filter(|name| path(name).exists()).collect();
        assert_eq!(there, [&"ab-3.image", &"ab-4.image", &"cd-1.image", &"ab.sites"]);
    }

    #[test]
    fn an_empty_image_is_none_and_is_not_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let stub = folder.path().join("no-library.so");
        fs::write(&stub, "").expect("what cannot be loaded");
        let list = folder.path().join("ab.sites");
        assert_eq!(image(&stub, &list), None);
        let entries = || fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(entries(), 2, "the stub, and the empty image");
        assert_eq!((image(&stub, &list), entries()), (None, 2));
    }
}
