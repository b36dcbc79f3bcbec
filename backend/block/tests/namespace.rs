//! A namespace of an NVMe device, where the environment names one (`make test-nvme`, in an emulated guest). What
//! lies on it is overwritten.

use std::path::{Path, PathBuf};
use std::time::Duration;

use heliostat_backend_block::{
    BlockError, Buffer, Completion, Device, Driven, Durability, FileDevice, NoCommands, OpenError,
    Options, Request,
};

const PAGE: usize = 4096;
const WAIT: Option<Duration> = Some(Duration::from_secs(60));

fn path() -> Option<PathBuf> {
    let path = std::env::var_os("HELIOSTAT_NAMESPACE").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: HELIOSTAT_NAMESPACE names no namespace of an NVMe device");
    }
    path
}

fn open(path: &Path) -> FileDevice {
    FileDevice::open(path, Options { lone_calls: false, ..Options::default() }).unwrap()
}

fn filled(bytes: usize, value: u8) -> Buffer {
    let buffer = Buffer::new(bytes).unwrap();
    buffer.copy_in(&vec![value; bytes]).unwrap();
    buffer
}

fn perform(device: &mut impl Device, request: Request) -> Result<(), BlockError> {
    let mut completions: Vec<Completion> = Vec::new();
    device.begin(1, request).unwrap();
    while completions.is_empty() {
        device.reap(WAIT, &mut completions).unwrap();
    }
    completions[0].result
}

fn found(device: &mut impl Device, offset: u64, bytes: usize) -> Vec<u8> {
    let into = filled(bytes, 0xee);
    perform(device, Request::Read { offset, into: into.clone() }).unwrap();
    into.copy_out().unwrap()
}

#[test]
fn what_is_written_is_read_by_any_size_and_lasts_as_it_is_said() {
    let Some(path) = path() else { return };
    for lone_calls in [false, true] {
        let options = Options { lone_calls, ..Options::default() };
        let mut device = FileDevice::open(&path, options).unwrap();
        assert!(device.is_namespace() && device.is_direct() && device.discards());
        assert_eq!(device.durability(), Durability::Dsync);
        assert_eq!(device.forced_unit_access(), Some(true));
        // One command, and several.
        for (turn, bytes) in
            [512, PAGE, 128 << 10, (128 << 10) + 512, 1 << 20].into_iter().enumerate()
        {
            let bytes = bytes.max(device.geometry().sector_bytes as usize);
            let (offset, value) =
                ((turn as u64) << 21, turn as u8 + 1 + u8::from(lone_calls) * 100);
            let from = filled(bytes, value);
            perform(&mut device, Request::Write { offset, from, durable: turn % 2 == 0 }).unwrap();
            assert_eq!(found(&mut device, offset, bytes), vec![value; bytes]);
        }
        perform(&mut device, Request::Flush).unwrap();
    }
}

#[test]
fn many_at_once_end_each_with_its_own_bytes() {
    let Some(path) = path() else { return };
    let mut device = open(&path);
    let depth = device.depth() as u64;
    for round in 0..20u8 {
        for at in 0..depth {
            let from = filled(PAGE, round ^ at as u8);
            let write = Request::Write { offset: at * PAGE as u64, from, durable: at % 3 == 0 };
            device.begin(at, write).unwrap();
        }
        finish(&mut device, depth);
        let buffers: Vec<Buffer> = (0..depth).map(|_| filled(PAGE, 0xee)).collect();
        for at in 0..depth {
            let into = buffers[at as usize].clone();
            device.begin(at, Request::Read { offset: at * PAGE as u64, into }).unwrap();
        }
        finish(&mut device, depth);
        for (at, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer.copy_out().unwrap(), [round ^ at as u8; PAGE], "{round}, {at}");
        }
    }
}

fn finish(device: &mut FileDevice, count: u64) {
    let mut completions = Vec::new();
    while completions.len() < count as usize {
        device.reap(WAIT, &mut completions).unwrap();
    }
    assert!(completions.iter().all(|it| it.result == Ok(())), "{completions:?}");
}

#[test]
fn sectors_that_were_zeroed_or_given_back_read_as_zero_and_those_beside_them_stay() {
    let Some(path) = path() else { return };
    let mut device = open(&path);
    let (bytes, mib) = (4u64 << 20, 1u64 << 20);
    for zeroes in [true, false] {
        let from = filled(bytes as usize, 7);
        perform(&mut device, Request::Write { offset: 0, from, durable: false }).unwrap();
        let (offset, bytes) = (mib, 2 * mib);
        let request = match zeroes {
            true => Request::Zero { offset, bytes },
            false => Request::Discard { offset, bytes },
        };
        perform(&mut device, request).unwrap();
        assert_eq!(found(&mut device, mib, 2 << 20), vec![0; 2 << 20]);
        assert_eq!(found(&mut device, 0, 1 << 20), vec![7; 1 << 20]);
        assert_eq!(found(&mut device, 3 * mib, 1 << 20), vec![7; 1 << 20]);
    }
}

#[test]
fn one_at_a_time_has_it_and_nobody_mounts_its_disk_meanwhile() {
    let Some(path) = path() else { return };
    let device = open(&path);
    assert_eq!(FileDevice::open(&path, Options::default()).err(), Some(OpenError::InUse));
    let disk = path.with_file_name("nvme0n1");
    let options = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::EXCL;
    let taken = rustix::fs::open(&disk, options, rustix::fs::Mode::empty());
    assert_eq!(taken.err(), Some(rustix::io::Errno::BUSY));
    // Whoever it is shared with in this process has it all the same.
    let mut other = device.shared().device(Options::default()).unwrap();
    assert_eq!(found(&mut other, 0, PAGE).len(), PAGE);
    drop((device, other));
    drop(open(&path));
}

#[test]
fn beyond_its_end_the_device_refuses_and_goes_on() {
    let Some(path) = path() else { return };
    let mut device = open(&path);
    let end = device.geometry().bytes;
    let wrong = device.begin(1, Request::Read { offset: end, into: filled(PAGE, 0) });
    assert!(wrong.is_err(), "refused here");
    perform(&mut device, Request::Flush).unwrap();
    let costs = device.measure(0, 5).unwrap();
    assert!(costs.dsync > Duration::ZERO && costs.forced_unit_access == Some(true), "{costs:?}");
}

#[test]
fn how_it_is_driven_is_told_and_nothing_is_taken_by_asking() {
    let Some(path) = path() else { return };
    let device = open(&path);
    assert_eq!(device.driven(), Driven::Commands);
    assert_eq!(FileDevice::probe_namespace(&path), Ok(Driven::Commands), "while it is in use");
    let mut reader = FileDevice::open_to_read(&path, Options::default()).unwrap();
    assert_eq!(reader.driven(), Driven::Commands);
    assert_eq!(found(&mut reader, 0, PAGE).len(), PAGE);
    drop((device, reader));
    let disk = path.with_file_name("nvme0n1");
    let device = FileDevice::open(&disk, Options::default()).unwrap();
    assert_eq!(device.driven(), Driven::DiskOfNamespace);
    let taken = FileDevice::open(&path, Options::default()).err();
    assert_eq!(taken, Some(OpenError::InUse), "its disk is in use");
    let null = FileDevice::probe_namespace(Path::new("/dev/null"));
    assert_eq!(null, Err(OpenError::NotADevice));
}

/// Not a test by itself: by a user who may open the namespace and its disk, and is not privileged.
#[test]
#[ignore = "it is started as another user"]
fn without_privilege_its_disk_is_driven_where_the_kernel_refuses_commands() {
    let Some(path) = path() else { return };
    let mut device = FileDevice::open(&path, Options::default()).unwrap();
    match device.driven() {
        Driven::InsteadOfCommands(NoCommands { errno: libc::EACCES, .. }) => {}
        driven => assert_eq!(driven, Driven::Commands, "Linux 6.2 and later"),
    }
    println!("driven by {}: {}", device.driven().by(), device.driven().why());
    assert_eq!(FileDevice::probe_namespace(&path), Ok(device.driven()));
    let from = filled(PAGE, 0x5a);
    perform(&mut device, Request::Write { offset: 0, from, durable: true }).unwrap();
    assert_eq!(found(&mut device, 0, PAGE), [0x5a; PAGE]);
    let (offset, bytes) = (0, PAGE as u64);
    perform(&mut device, Request::Discard { offset, bytes }).unwrap();
    assert_eq!(found(&mut device, 0, PAGE), [0; PAGE]);
    assert_eq!(FileDevice::open(&path, Options::default()).err(), Some(OpenError::InUse));
    let mut reader = FileDevice::open_to_read(&path, Options::default()).unwrap();
    assert_eq!((reader.driven(), found(&mut reader, 0, PAGE)), (device.driven(), vec![0; PAGE]));
}

/// Not a test by itself: writes numbers durably, and says each.
#[test]
#[ignore = "it ends with the machine"]
fn durable_writes_until_the_power_is_lost() {
    let Some(path) = path() else { return };
    let mut device = open(&path);
    let pages = device.geometry().bytes / PAGE as u64;
    for number in 1u64.. {
        let from = filled(PAGE, 0);
        from.copy_in(&number.to_le_bytes().repeat(PAGE / 8)).unwrap();
        let offset = number % pages * PAGE as u64;
        perform(&mut device, Request::Write { offset, from, durable: true }).unwrap();
        println!("kept {number}");
    }
}

/// The other half.
#[test]
#[ignore = "it looks at what the one above has left"]
fn durable_writes_are_there_after_the_power_was_lost() {
    let Some(path) = path() else { return };
    let kept: u64 = std::env::var("HELIOSTAT_KEPT").unwrap().parse().unwrap();
    let mut device = open(&path);
    let pages = device.geometry().bytes / PAGE as u64;
    assert!(kept > 0 && kept < pages, "{kept}");
    for number in 1..=kept {
        let page = found(&mut device, number % pages * PAGE as u64, PAGE);
        assert_eq!(page, number.to_le_bytes().repeat(PAGE / 8), "the write of {number}");
    }
}
