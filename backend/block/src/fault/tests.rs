use std::time::{Duration, Instant};

use super::*;
use crate::{Image, MemoryDevice};

const ENOSPC: i32 = 28;

/// A device of 64 sectors, each full of its own number.
fn device() -> (FaultDevice<MemoryDevice>, Faults) {
    let mut image = Image::new(64 * 512);
    (0..64u8).for_each(|at| image.fill(u64::from(at) * 512, 512, at).unwrap());
    let faults = Faults::new(1);
    (FaultDevice::new(MemoryDevice::of(image), faults.clone()), faults)
}

fn buffer(bytes: usize, value: u8) -> Buffer {
    let buffer = Buffer::new(bytes).unwrap();
    buffer.copy_in(&vec![value; bytes]).unwrap();
    buffer
}

fn write(offset: u64, sectors: usize) -> Request {
    Request::Write { offset, from: buffer(sectors * 512, 0xaa), durable: false }
}

/// Begins operations together and takes what completes until all have.
fn perform(device: &mut impl Device, requests: Vec<Request>) -> Vec<Completion> {
    let (count, mut taken) = (requests.len(), Vec::new());
    for (token, request) in requests.into_iter().enumerate() {
        device.begin(token as u64, request).unwrap();
    }
    while taken.len() < count {
        device.reap(Some(Duration::from_secs(1)), &mut taken).unwrap();
    }
    taken
}

fn sectors(device: &FaultDevice<MemoryDevice>, first: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * 512];
    device.inner().image().read(first * 512, &mut bytes).unwrap();
    bytes.chunks(512).map(|sector| sector[0]).collect()
}

fn one(fault: Fault, request: Request) -> (Result<(), BlockError>, FaultDevice<MemoryDevice>) {
    let (mut device, faults) = device();
    faults.script(0, fault);
    let taken = perform(&mut device, vec![request]);
    assert_eq!(faults.injected(), [(0, fault)]);
    (taken[0].result, device)
}

#[test]
fn a_torn_write_is_said_to_be_whole_and_a_short_one_is_not() {
    let (result, device) = one(Fault::Torn { sectors: 2 }, write(512, 3));
    assert_eq!((result, sectors(&device, 0, 5)), (Ok(()), vec![0, 0xaa, 0xaa, 3, 4]));
    let (result, device) = one(Fault::Short { sectors: 1 }, write(512, 3));
    assert_eq!(result, Err(BlockError::Short { moved: 512 }));
    assert_eq!(sectors(&device, 0, 5), [0, 0xaa, 2, 3, 4]);
    let (result, device) = one(Fault::Torn { sectors: 0 }, write(512, 3));
    assert_eq!((result, sectors(&device, 0, 5)), (Ok(()), vec![0, 1, 2, 3, 4]));
}

#[test]
fn a_lost_write_changes_nothing_and_one_that_errs_may_be_done() {
    let (result, device) = one(Fault::Lost, write(0, 2));
    assert_eq!((result, sectors(&device, 0, 3)), (Ok(()), vec![0, 1, 2]));
    let failed = Err(BlockError::Device { errno: ENOSPC });
    let (result, device) = one(Fault::Error { errno: ENOSPC }, write(0, 2));
    assert_eq!((result, sectors(&device, 0, 3)), (failed, vec![0, 1, 2]));
    let (result, device) = one(Fault::DoneError { errno: ENOSPC }, write(0, 2));
    assert_eq!((result, sectors(&device, 0, 3)), (failed, vec![0xaa, 0xaa, 2]));
}

#[test]
fn a_misdirected_write_lands_elsewhere_on_the_device() {
    let (result, device) = one(Fault::Misdirected { sectors: 3 }, write(0, 2));
    assert_eq!((result, sectors(&device, 0, 6)), (Ok(()), vec![0, 1, 2, 0xaa, 0xaa, 5]));
    let (_, device) = one(Fault::Misdirected { sectors: 3 }, write(61 * 512, 2));
    assert_eq!(sectors(&device, 0, 3), [0, 0xaa, 0xaa]);
}

#[test]
fn a_flipped_bit_is_in_what_was_read_and_not_on_the_device() {
    let into = buffer(1024, 0);
    let read = Request::Read { offset: 7 * 512, into: into.clone() };
    let (result, device) = one(Fault::Flipped { bit: 513 * 8 + 4 }, read);
    let bytes = into.copy_out().unwrap();
    assert_eq!((result, bytes[511..515].to_vec()), (Ok(()), vec![7, 8, 8 ^ 16, 8]));
    assert_eq!(sectors(&device, 7, 2), [7, 8]);
}

#[test]
fn a_late_write_is_overtaken_by_the_next_and_never_left_behind() {
    let (mut device, faults) = device();
    faults.script(0, Fault::Late { by: 1 });
    let first = Request::Write { offset: 0, from: buffer(512, 1), durable: false };
    let second = Request::Write { offset: 0, from: buffer(512, 2), durable: false };
    assert_eq!(perform(&mut device, vec![first, second]).len(), 2);
    assert_eq!(sectors(&device, 0, 1), [1], "the first was done last");
    faults.script_next(Fault::Late { by: 9 });
    assert_eq!(perform(&mut device, vec![write(0, 1)]).len(), 1);
}

#[test]
fn a_slow_operation_takes_its_time_and_holds_nobody_else_up() {
    let (mut device, faults) = device();
    faults.script(0, Fault::Slow { more: Duration::from_millis(20) });
    let begun = Instant::now();
    let taken = perform(&mut device, vec![Request::Flush, write(0, 1)]);
    assert_eq!(taken.iter().map(|it| it.token).collect::<Vec<_>>(), [1, 0]);
    assert!(begun.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_full_queue_begins_nothing() {
    let (mut device, faults) = device();
    faults.script(0, Fault::QueueFull);
    assert_eq!(device.begin(0, Request::Flush), Err(BeginError::Full { depth: 64 }));
    assert_eq!(perform(&mut device, vec![Request::Flush]).len(), 1);
}

#[test]
fn odds_bring_every_fault_and_the_same_ones_for_the_same_seed() {
    let run = |seed| {
        let faults = Faults::new(seed);
        let all = 100_000;
        faults.set_odds(Odds {
            read_error: all,
            write_error: all,
            no_space: all,
            flush_error: all,
            torn: all,
            short: all,
            lost: all,
            misdirected: all,
            flipped: all,
            late: all,
            slow: all,
            queue_full: all,
        });
        faults.set_slow_by(Duration::from_micros(1));
        let mut device = FaultDevice::new(MemoryDevice::new(64 * 512), faults.clone());
        let (into, mut taken, mut begun) = (buffer(512, 0), Vec::new(), 0);
        for token in 0..2000 {
            let request = match token % 4 {
                0 => Request::Read { offset: 0, into: into.clone() },
                1 => Request::Flush,
                2 => Request::Zero { offset: 512, bytes: 512 },
                _ => write(0, 4),
            };
            begun += usize::from(device.begin(token, request).is_ok());
            device.reap(Some(Duration::from_secs(1)), &mut taken).unwrap();
        }
        while taken.len() < begun {
            device.reap(Some(Duration::from_secs(1)), &mut taken).unwrap();
        }
        faults.injected()
    };
    let injected = run(3);
    let kinds: std::collections::HashSet<_> =
        injected.iter().map(|(_, fault)| std::mem::discriminant(fault)).collect();
    assert_eq!((kinds.len(), run(3) == injected, run(4) == injected), (10, true, false));
}
