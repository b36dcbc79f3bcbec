//! What is put back, what is left as it is, and what is told.

use super::*;

/// A log that has these entries.
fn log_of(entries: &[Vec<u8>]) -> Log {
    let log = Log::open(Box::new(empty()), AREA, options()).unwrap();
    entries.iter().for_each(|entry| _ = log.append_sync(entry).unwrap());
    log
}

fn one(log: &Log, force: bool) -> What {
    recover(log, &Boot::now().unwrap(), force).unwrap().files[0].what
}

#[test]
fn a_file_that_was_renamed_is_found_and_another_one_is_not_touched() {
    let scene = Scene::new();
    let entries = [scene.entry(0, b"first, "), scene.entry(7, b"second")];
    let renamed = scene.path.with_extension("old");
    std::fs::rename(&scene.path, &renamed).unwrap();
    scene.file.set_modified(long_ago()).unwrap();
    std::fs::write(&scene.path, "another").unwrap();
    assert_eq!(one(&log_of(&entries), false), What::Restored { bytes: 13 });
    assert_eq!(std::fs::read(&renamed).unwrap(), b"first, second");
    std::fs::remove_file(&renamed).unwrap();
    let log = log_of(&entries);
    assert_eq!(one(&log, false), What::Another);
    assert_eq!(std::fs::read(&scene.path).unwrap(), b"another");
    std::fs::remove_file(&scene.path).unwrap();
    assert_eq!(one(&log, false), What::Missing);
    assert_ne!(log.begin(), log.end(), "what is not in its file is kept");
}

#[test]
fn a_file_that_was_written_since_the_machine_came_up_is_not_touched_unless_forced() {
    let scene = Scene::new();
    let log = log_of(&[scene.entry(0, b"acknowledged")]);
    for modified in [SystemTime::now(), long_ago() + Duration::from_secs(100)] {
        scene.put(b"new life", modified);
        assert_eq!(one(&log, false), What::Changed);
    }
    assert_eq!(scene.content(), b"new life");
    assert_eq!(one(&log, true), What::Restored { bytes: 12 });
    assert_eq!((scene.content(), log.begin()), (b"acknowledged".to_vec(), log.end()));
}

#[test]
fn a_recovery_that_was_cut_off_may_go_on_with_its_file_and_with_no_other() {
    let (begun, other) = (Scene::new(), Scene::new());
    begun.put(b"ackn", SystemTime::now());
    other.put(b"new life", SystemTime::now());
    let boot = Boot::now().unwrap();
    let entries = [begun.entry(0, b"acknowledged"), other.entry(0, b"old life")];
    let mark = entry::mark(boot.id, begun.birth).to_vec();
    let log = log_of(&[&entries[..], &[mark]].concat());
    let what = |log: &Log| {
        recover(log, &boot, false).unwrap().files.iter().map(|it| it.what).collect::<Vec<_>>()
    };
    assert_eq!(what(&log), [What::Restored { bytes: 12 }, What::Changed]);
    assert_eq!(
        (begun.content(), other.content()),
        (b"acknowledged".to_vec(), b"new life".to_vec())
    );
    // It has ended with the first as well: what somebody does to it now is not undone.
    begun.put(b"another life", SystemTime::now());
    assert_eq!(what(&log), [What::Changed, What::Changed]);
}

#[test]
fn what_the_kernel_may_have_failed_to_write_back_is_written_again() {
    let scene = Scene::new();
    let some_time_ago = SystemTime::now() - Duration::from_secs(1);
    scene.put(b"acknowledged", some_time_ago);
    let mut entry = scene.entry(0, b"acknowledged");
    entry[8..24].copy_from_slice(&Boot::now().unwrap().id);
    assert_eq!(one(&log_of(&[entry.clone()]), false), What::Flushed);
    let modified = || scene.file.metadata().unwrap().modified().unwrap();
    assert!(modified() > some_time_ago, "a flush alone would have been told that all is well");
    // What was there when the machine came up is what the device has.
    scene.put(b"acknowledged", long_ago());
    assert_eq!(one(&log_of(&[entry]), false), What::Flushed);
    assert_eq!(modified(), long_ago());
}

#[test]
fn entries_of_this_run_of_the_machine_change_nothing() {
    let scene = Scene::new();
    scene.put(b"cut short by somebody", SystemTime::now());
    let mut entry = scene.entry(0, b"acknowledged, and longer than what is there");
    entry[8..24].copy_from_slice(&Boot::now().unwrap().id);
    let log = log_of(&[entry.clone()]);
    assert_eq!(one(&log, false), What::Flushed);
    assert_eq!((scene.content(), log.begin()), (b"cut short by somebody".to_vec(), log.end()));
    std::fs::remove_file(&scene.path).unwrap();
    assert_eq!(one(&log_of(&[entry]), false), What::Gone);
}

#[test]
fn another_programs_log_is_refused_and_kept() {
    let log = log_of(&[b"an entry of somebody else".to_vec()]);
    let refused = recover(&log, &Boot::now().unwrap(), true);
    assert!(matches!(refused, Err(crate::RecoverError::Malformed { .. })), "{refused:?}");
    assert_ne!(log.begin(), log.end());
}

#[test]
fn a_log_lies_in_a_file_for_one_process_at_a_time() {
    use heliostat_backend_block::OpenError;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    crate::create(&path, 1 << 20).unwrap();
    assert!(crate::create(&path, 1 << 20).is_err(), "what is there is not made anew");
    let opened = crate::open(Path::new(&path), None).unwrap();
    let position = opened.log.append_sync(b"kept").unwrap();
    let again = crate::open(&path, None).err();
    assert_eq!(again, Some(crate::PlaceError::Device(OpenError::InUse)));
    drop(opened);
    let opened = crate::open(&path, None).unwrap();
    assert_eq!(opened.log.read().next().unwrap().unwrap().position, position);
}
