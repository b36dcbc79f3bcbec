//! Who looks at a log without recovering it.

use heliostat_backend_block::MemoryDevice;
use heliostat_backend_log::{Area, Log, Options};

use super::{Scene, OLD_BOOT};
use crate::{entry, Boot, BootId};

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
