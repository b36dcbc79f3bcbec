//! Who looks at a log without recovering it.

use heliostat_backend_block::MemoryDevice;
use heliostat_backend_log::{Area, Log, Options};

use super::{Scene, OLD_BOOT};
use crate::entry::{self, Malformed, ENTRY_BYTES_MAX};
use crate::{recover, Boot, BootId, RecoverError};

/// Whether a log is one to be recovered that begins with so many entries that say nothing, before one of
/// this run of the machine.
fn is_left_behind(marks: usize, run: BootId) -> bool {
    let area = Area { offset: 0, bytes: 4 << 20 };
    let (scene, device) = (Scene::new(), Box::new(MemoryDevice::new(area.bytes)));
    let log = Log::create(device, area, Options::default()).unwrap();
    for _ in 0..marks {
        drop(log.append(&entry::mark(OLD_BOOT, scene.birth)).unwrap());
    }
    let mut last = scene.entry(0, b"bytes");
    last[8..24].copy_from_slice(&run);
    log.append_sync(&last).unwrap();
    log.close().unwrap();
    let boot = Boot::now().unwrap();
    crate::is_left_by_crash(log.into_device().unwrap(), area, &boot).unwrap()
}

#[test]
fn who_looks_at_a_log_reads_no_more_than_its_beginning() {
    let this = Boot::now().unwrap().id;
    assert!(is_left_behind(0, OLD_BOOT) && is_left_behind(10, OLD_BOOT));
    assert!(!is_left_behind(0, this) && !is_left_behind(10, this));
    assert!(is_left_behind(20_000, this), "what was not read may be anything");
}

#[test]
fn entries_that_are_longer_than_anybody_writes_them_are_neither_looked_at_nor_recovered() {
    let area = Area { offset: 0, bytes: 16 << 20 };
    let (scene, device) = (Scene::new(), Box::new(MemoryDevice::new(area.bytes)));
    let options = Options { window_bytes: 12 << 20, ..Options::default() };
    let log = Log::create(device, area, options).unwrap();
    let bytes = vec![7; ENTRY_BYTES_MAX as usize];
    let position = log.append_sync(&scene.entry(0, &bytes)).unwrap();
    let found = scene.entry(0, &bytes).len() as u64;
    let boot = Boot::now().unwrap();
    let why = Malformed::Long { found };
    assert_eq!(recover(&log, &boot, true), Err(RecoverError::Malformed { position, why }));
    assert!(scene.content().is_empty() && log.begin() != log.end());
    log.close().unwrap();
    let looked_at = crate::is_left_by_crash(log.into_device().unwrap(), area, &boot);
    assert!(looked_at.is_err(), "{looked_at:?}");
}
