//! A log whose header and lengths somebody has made up costs who opens it no memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use heliostat_backend_block::{FileDevice, Options as FileOptions};
use heliostat_backend_log::format::{
    entry_bytes, EntryHeader, EntryKind, Header, PayloadChecksum, DATA_OFFSET,
};
use heliostat_backend_log::{Area, Log, LogError, LogReader, Options, Position};

const MIB: u64 = 1 << 20;
const DATA_BYTES: u64 = 512 * MIB;
const AREA: Area = Area { offset: 0, bytes: DATA_OFFSET + DATA_BYTES };
/// Window and longest payload, as the header says.
const WINDOW_BYTES: u64 = 96 * MIB;
const PAYLOAD_BYTES: u64 = 80 * MIB;
/// What an opening may add to what the process has.
const MEMORY_BYTES_MAX: u64 = 16 * MIB;

/// One entry of zeroes, behind the header's end, in a file that is one large hole.
fn craft(path: &Path) {
    let file = File::options().create(true).truncate(true).write(true).open(path).unwrap();
    file.set_len(AREA.bytes).unwrap();
    let header = Header {
        sector_bytes: 512,
        identity: [7; 16],
        data_bytes: DATA_BYTES,
        window_bytes: WINDOW_BYTES,
        counter: 2,
        generation: 1,
        longest: PAYLOAD_BYTES as u32,
        begin: Position::default(),
        end: Position::default(),
        marks: Default::default(),
    };
    file.write_all_at(&header.encode(), 0).unwrap();
    let entry = EntryHeader {
        kind: EntryKind::Payload,
        length: PAYLOAD_BYTES as u32,
        payload: checksum_of_zeroes(PAYLOAD_BYTES),
        position: Position::default(),
        generation: 1,
        unsettled: 0,
    };
    file.write_all_at(&entry.encode(header.seed()), DATA_OFFSET).unwrap();
}

fn checksum_of_zeroes(bytes: u64) -> PayloadChecksum {
    let piece = vec![0; MIB as usize];
    (0..bytes / MIB).fold(PayloadChecksum::default(), |sum, _| sum.and(&piece))
}

/// The most that this process has had in memory.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn device(path: &Path) -> Box<FileDevice> {
    Box::new(FileDevice::open(path, FileOptions::default()).unwrap())
}

#[test]
fn an_entry_of_eighty_mebibytes_is_checked_and_refused_piece_by_piece() {
    let name = format!("crafted-{}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    craft(&path);
    let _ = checksum_of_zeroes(MIB);
    let before = peak_bytes();
    let too_long = LogError::TooLong { found: PAYLOAD_BYTES, limit: MIB };
    let beside = LogReader::open(device(&path), AREA).unwrap();
    assert_eq!(beside.at_most(MIB).read(), Err(too_long));
    let log = Log::open(device(&path), AREA, Options::default()).unwrap();
    assert_eq!(log.end().at, entry_bytes(PAYLOAD_BYTES), "the entry is a whole one");
    assert_eq!(log.read().at_most(MIB).read(), Err(too_long));
    let taken = peak_bytes() - before;
    assert!(taken < MEMORY_BYTES_MAX, "{taken} bytes");
    drop(log);
    std::fs::remove_file(path).unwrap();
}
