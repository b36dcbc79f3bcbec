//! Every no that a log has an own kind for, and that what was acknowledged stays.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use heliostat_stub_log::{Kind, Log, LogError, LogReader, Place, Queue};

const BYTES: u64 = 64 << 10;

struct Folder(tempfile::TempDir);

impl Folder {
    /// Beside the test's own program: a temporary folder may be memory.
    fn new() -> Folder {
        Folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with a log of one entry.
    fn log(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let log = Log::create(path.as_path(), BYTES).unwrap();
        log.append_sync(b"kept").unwrap();
        log.close().unwrap();
        path
    }
}

fn no(path: &Path) -> (Kind, String) {
    let error = Log::open(path).unwrap_err();
    // Whoever only reads is told the same, but for the lock.
    if error.kind() != Kind::InUse {
        assert_eq!(LogReader::open(path).unwrap_err().kind(), error.kind(), "{error}");
    }
    (error.kind(), error.to_string())
}

fn change(path: &Path, offset: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn a_full_log_says_so_keeps_what_it_has_and_lives_on_when_trimmed() {
    let folder = Folder::new();
    let path = folder.path("full");
    let log = Log::create(path.as_path(), BYTES).unwrap();
    let mut positions = Vec::new();
    let error = loop {
        match log.append_sync(&[7; 1000]) {
            Ok(position) => positions.push(position),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::Full { wanted: 1032, .. }), "{error}");
    assert_eq!(log.read().count(), positions.len());
    log.close().unwrap();
    let log = Log::open(path.as_path()).unwrap();
    assert_eq!(log.read().count(), positions.len());
    assert_eq!(Kind::from(&log.append(&[7; 1000]).unwrap_err()), Kind::Full);
    log.trim(positions[10]).unwrap();
    log.append_sync(&[8; 1000]).unwrap();
    assert_eq!(log.read().count(), positions.len() - 10 + 1);
}

#[test]
fn a_log_has_one_writer_whom_others_may_read() {
    let folder = Folder::new();
    let path = folder.log("shared");
    let log = Log::open(path.as_path()).unwrap();
    let (kind, text) = no(&path);
    assert_eq!(kind, Kind::InUse, "{text}");
    assert!(text.contains("shared: in use"), "{text}");
    let mut reader = LogReader::open(path.as_path()).unwrap();
    assert_eq!(reader.read().unwrap().unwrap().payload, b"kept");
    drop(log);
    Queue::open(path.as_path()).unwrap();
}

#[test]
fn what_is_no_log_or_not_this_one_is_told_apart() {
    let folder = Folder::new();
    assert_eq!(no(&folder.path("nowhere")).0, Kind::NotFound);
    assert_eq!(no(folder.0.path()).0, Kind::WrongDevice);
    std::fs::write(folder.path("text"), vec![b'x'; 1 << 16]).unwrap();
    assert_eq!(no(&folder.path("text")).0, Kind::Foreign);
    std::fs::write(folder.path("empty"), b"").unwrap();
    assert_eq!(no(&folder.path("empty")).0, Kind::WrongDevice);
    std::fs::write(folder.path("short"), vec![0; 8192]).unwrap();
    assert_eq!(no(&folder.path("short")).0, Kind::WrongDevice);

    let cut = folder.log("cut");
    std::fs::File::options().write(true).open(&cut).unwrap().set_len(BYTES - 4096).unwrap();
    let (kind, text) = no(&cut);
    assert_eq!(kind, Kind::WrongDevice, "{text}");
    assert!(text.contains("space for entries"), "{text}");

    let bad = folder.log("bad");
    [0, 4096].into_iter().for_each(|offset| change(&bad, offset + 100, b"?"));
    assert_eq!(no(&bad).0, Kind::Damaged);
}

#[test]
fn a_later_format_is_refused_and_left_alone() {
    let folder = Folder::new();
    let path = folder.log("later");
    let mut bytes = std::fs::read(&path).unwrap();
    for block in [0, 4096] {
        bytes[block + 8] = 2;
        let checksum = crc32c::crc32c(&bytes[block..block + 508]).to_le_bytes();
        bytes[block + 508..block + 512].copy_from_slice(&checksum);
    }
    std::fs::write(&path, &bytes).unwrap();
    let (kind, text) = no(&path);
    assert_eq!(kind, Kind::Newer, "{text}");
    assert!(text.contains("version 2"), "{text}");
    assert!(std::fs::read(&path).unwrap() == bytes);
}

#[test]
fn nothing_is_made_over_what_is_there_or_where_there_is_no_room_for_a_log() {
    let folder = Folder::new();
    let path = folder.log("there");
    assert_eq!(Log::create(path.as_path(), BYTES).unwrap_err().kind(), Kind::Exists);
    let log = Log::open_or_create(path.as_path(), BYTES).unwrap();
    assert_eq!(log.read().next().unwrap().unwrap().payload, b"kept");
    let small = Log::create(folder.path("small"), 4096).unwrap_err();
    assert_eq!(small.kind(), Kind::WrongDevice, "{small}");
    let lost = Log::create(folder.path("no/where"), BYTES).unwrap_err();
    assert_eq!(lost.kind(), Kind::NotFound, "{lost}");
    let names: Vec<_> = std::fs::read_dir(folder.0.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_payload_that_is_too_long_and_a_position_that_is_none_change_nothing() {
    let folder = Folder::new();
    let log = Log::create(folder.path("log"), BYTES).unwrap();
    let first = log.append_sync(b"first").unwrap();
    let longest = log.longest() as usize;
    let error = log.append(&vec![0; longest + 1]).unwrap_err();
    assert_eq!(Kind::from(&error), Kind::TooLong, "{error}");
    log.trim(log.end()).unwrap();
    assert_eq!(Kind::from(&log.trim(first).unwrap_err()), Kind::Trimmed);
    let beyond = heliostat_stub_log::Position { at: 1 << 20, sequence: 9 };
    assert_eq!(Kind::from(&log.wait_durable(beyond, None).unwrap_err()), Kind::NoEntry);
    let other = log.clone();
    log.close().unwrap();
    assert_eq!(Kind::from(&other.append(b"late").unwrap_err()), Kind::Closed);
}

#[test]
fn an_append_becomes_durable_while_nobody_waits() {
    let folder = Folder::new();
    let log = Log::create(folder.path("alone"), BYTES).unwrap();
    let event = log.event().unwrap();
    let position = log.append(b"alone").unwrap().position();
    while !log.is_durable(position) {
        assert!(event.wait(Some(60_000)).unwrap(), "nobody drives");
        event.drain().unwrap();
    }
    let (send, told) = std::sync::mpsc::channel();
    let position = log.append_then(b"then", move |it| send.send(it).unwrap()).unwrap();
    assert_eq!(told.recv().unwrap(), Ok(position));
}

#[test]
fn what_was_appended_is_durable_when_the_last_handle_is_dropped() {
    let folder = Folder::new();
    let path = folder.path("dropped");
    let log = Log::create(path.as_path(), BYTES).unwrap();
    (0..100u8).for_each(|number| drop(log.append(&[number]).unwrap()));
    drop(log);
    let place = Place::from(path.as_path());
    let found: Vec<u8> =
        Log::open(&place).unwrap().read().map(|entry| entry.unwrap().payload[0]).collect();
    assert_eq!(found, (0..100).collect::<Vec<u8>>());
}
