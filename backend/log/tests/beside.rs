//! A reader of a real file, beside a log that another thread has open to write.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use heliostat_backend_block::{FileDevice, Options as FileOptions};
use heliostat_backend_log::{Area, Log, LogError, LogReader, Options, Position};

const AREA: Area = Area { offset: 0, bytes: 136 << 10 };

/// A file beside the test's own program: a temporary folder may be memory.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("beside-{name}-{}", std::process::id());
        let place = Place(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = std::fs::remove_file(&place.0);
        FileDevice::create(&place.0, AREA.bytes).unwrap();
        place
    }

    fn create(&self) -> Log {
        let device = FileDevice::open(&self.0, FileOptions::default()).unwrap();
        Log::create(Box::new(device), AREA, Options::default()).unwrap()
    }

    fn reader(&self) -> Result<LogReader, LogError> {
        let device = FileDevice::open_to_read(&self.0, FileOptions::default()).unwrap();
        LogReader::open(Box::new(device), AREA)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn number(payload: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*payload.first_chunk().expect("a number is in each"));
    assert!(payload[8..].iter().all(|byte| *byte == number as u8), "entry {number} was changed");
    number
}

fn payload(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + (number * 61 % 1500) as usize, number as u8);
    bytes
}

#[test]
fn a_reader_sees_every_entry_once_and_in_order_until_the_writer_overtakes_it() {
    const ENTRIES: u64 = 2000;
    let place = Place::new("follow");
    let (log, is_over) = (place.create(), AtomicBool::new(false));
    let mut reader = place.reader().unwrap();
    let (mut seen, mut last, mut overtaken) = (0u64, None, 0u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..ENTRIES {
                let position = log.append_sync(&payload(number)).unwrap();
                if number % 40 == 39 {
                    log.trim(position).unwrap();
                }
            }
            is_over.store(true, Ordering::Release);
        });
        loop {
            let was_over = is_over.load(Ordering::Acquire);
            match reader.read() {
                Ok(Some(entry)) => {
                    let number = number(&entry.payload);
                    let is_next = last.is_none_or(|last| number == last + 1);
                    assert!(is_next, "{number} came after {last:?}");
                    (seen, last) = (seen + 1, Some(number));
                }
                Ok(None) if was_over => break,
                Ok(None) => std::thread::yield_now(),
                Err(LogError::Trimmed { .. }) => {
                    reader.go_to_begin().unwrap();
                    (last, overtaken) = (None, overtaken + 1);
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    reader.check_end().unwrap();
    assert_eq!(last, Some(ENTRIES - 1));
    println!("{seen} of {ENTRIES} seen, overtaken {overtaken} times");
}

#[test]
fn what_was_not_acknowledged_is_no_entry_and_the_file_is_not_changed() {
    let place = Place::new("unchanged");
    let log = place.create();
    log.append_sync(b"one").unwrap();
    drop(log.append(b"two").unwrap());
    let before = std::fs::read(&place.0).unwrap();
    let mut reader = place.reader().unwrap();
    let payloads: Vec<Vec<u8>> = reader.by_ref().map(|entry| entry.unwrap().payload).collect();
    assert_eq!(payloads, [b"one"]);
    reader.check_end().unwrap();
    assert!(std::fs::read(&place.0).unwrap() == before);
    log.sync().unwrap();
    assert_eq!(reader.read().unwrap().unwrap().payload, b"two");
}

fn damage(path: &Path, position: Position) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    // The first byte of the payload.
    let offset = 8192 + position.at % (AREA.bytes - 8192) + 32;
    file.write_all_at(b"\xff", offset).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn damage_is_told_with_its_position_and_never_passed_over() {
    let place = Place::new("damage");
    let log = place.create();
    let positions: Vec<Position> =
        (0..5).map(|number| log.append_sync(&payload(number)).unwrap()).collect();
    log.close().unwrap();
    drop(log);
    damage(&place.0, positions[3]);
    let mut reader = place.reader().unwrap();
    let read: Vec<u64> = (0..3).map(|_| number(&reader.read().unwrap().unwrap().payload)).collect();
    assert_eq!(read, [0, 1, 2]);
    for _ in 0..2 {
        let told = reader.read();
        assert!(
            matches!(told, Err(LogError::Damaged { position, .. }) if position == positions[3]),
            "{told:?}"
        );
    }
    reader.go_to(positions[4]);
    assert_eq!(number(&reader.read().unwrap().unwrap().payload), 4);
}

#[test]
fn damage_behind_the_header_is_proven_by_what_follows_it() {
    let place = Place::new("behind");
    let log = place.create();
    let positions: Vec<Position> =
        (0..5).map(|number| log.append_sync(&payload(number)).unwrap()).collect();
    damage(&place.0, positions[2]);
    let mut reader = place.reader().unwrap();
    assert_eq!(reader.by_ref().map(|entry| number(&entry.unwrap().payload)).max(), Some(1));
    let told = reader.check_end();
    assert!(
        matches!(told, Err(LogError::Damaged { position, .. }) if position == positions[2]),
        "{told:?}"
    );
}

#[test]
fn a_log_that_was_made_anew_is_another_one() {
    let place = Place::new("anew");
    let log = place.create();
    log.append_sync(b"old").unwrap();
    let mut reader = place.reader().unwrap();
    let device = { log.close().map(|()| log.into_device().unwrap()).unwrap() };
    let device = Log::erase(device, AREA).unwrap();
    let log = Log::create(device, AREA, Options::default()).unwrap();
    log.append_sync(b"new").unwrap();
    assert_eq!(reader.read(), Err(LogError::Replaced));
}
