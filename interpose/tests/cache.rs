//! Site lists on disk: whose file is believed, and how it comes to be there.
#![cfg(feature = "scan")]

mod support;

use heliostat_interpose::cache::{self, CacheError};
use heliostat_interpose::{libc_path, scan, scan_file, SiteList};
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use support::Scratch;

fn libc() -> PathBuf {
    libc_path().expect("tests are linked dynamically")
}

fn stored(scratch: &Scratch) -> (SiteList, PathBuf) {
    let list = scan_file(&libc()).expect("libc scans");
    let path = cache::store(&scratch.sites(), &list).expect("the directory is writable");
    (list, path)
}

fn load(list: &SiteList, path: &Path) -> Result<SiteList, CacheError> {
    cache::load(path, &list.build_id)
}

#[test]
fn a_stored_list_is_private_and_loads() {
    let scratch = Scratch::new("cache-load");
    let (list, path) = stored(&scratch);
    assert_eq!(load(&list, &path).expect("just stored"), list);
    assert_eq!(fs::metadata(&path).expect("just stored").mode() & 0o7777, 0o600);
    assert_eq!(fs::read_dir(scratch.sites()).expect("exists").count(), 1, "temporary file left");
}

#[test]
fn a_second_request_does_not_scan_again() {
    let scratch = Scratch::new("cache-again");
    let path = scan::ensure_cached_in(&scratch.sites(), &libc()).expect("libc scans");
    let first = fs::metadata(&path).expect("just written").ino();
    let again = scan::ensure_cached_in(&scratch.sites(), &libc()).expect("libc scans");
    assert_eq!((fs::metadata(&again).expect("still there").ino(), again), (first, path));
}

#[test]
fn the_first_page_of_a_library_tells_whose_list_it_needs() {
    let scratch = Scratch::new("cache-head");
    let (_, path) = stored(&scratch);
    let head = scratch.sites().join("head");
    fs::write(&head, &fs::read(libc()).expect("readable")[..4096]).expect("ours");
    assert_eq!(scan::ensure_cached_in(&scratch.sites(), &head).expect("no more is read"), path);
    fs::write(&head, &fs::read(libc()).expect("readable")[..512]).expect("ours");
    assert!(scan::ensure_cached_in(&scratch.sites(), &head).is_err());
}

#[test]
fn a_damaged_list_is_replaced() {
    let scratch = Scratch::new("cache-damaged");
    let (list, path) = stored(&scratch);
    fs::write(&path, b"rubbish").expect("ours");
    assert!(matches!(load(&list, &path), Err(CacheError::Format { .. })));
    scan::ensure_cached_in(&scratch.sites(), &libc()).expect("libc scans");
    assert_eq!(load(&list, &path).expect("replaced"), list);
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let scratch = Scratch::new("cache-mode");
    let (list, path) = stored(&scratch);
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        assert!(matches!(load(&list, &path), Err(CacheError::Mode { .. })), "{mode:o}");
    }
}

#[test]
fn a_link_or_a_directory_in_its_place_is_refused() {
    let scratch = Scratch::new("cache-link");
    let (list, path) = stored(&scratch);
    let elsewhere = scratch.0.join("elsewhere");
    fs::rename(&path, &elsewhere).expect("ours");
    symlink(&elsewhere, &path).expect("ours");
    assert!(matches!(load(&list, &path), Err(CacheError::Io { .. })));
    fs::remove_file(&path).expect("ours");
    fs::create_dir(&path).expect("ours");
    assert!(matches!(load(&list, &path), Err(CacheError::Mode { .. })));
}

#[test]
fn a_file_of_somebody_else_is_refused() {
    let scratch = Scratch::new("cache-owner");
    let (list, path) = stored(&scratch);
    if chown(&path, Some(65534), None).is_err() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    assert!(matches!(load(&list, &path), Err(CacheError::Owner { found: 65534, .. })));
}

#[test]
fn a_list_of_another_library_is_refused() {
    let scratch = Scratch::new("cache-other");
    let (list, path) = stored(&scratch);
    let other = heliostat_interpose::BuildId::new(b"another").expect("seven bytes");
    assert!(matches!(cache::load(&path, &other), Err(CacheError::BuildId { found, .. })
        if found == list.build_id));
}
