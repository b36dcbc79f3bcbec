//! Areas in one place and in several: what is read and written, and nothing beside it.

use super::*;
use crate::{Buffer, Fault, FaultDevice, Faults, MemoryDevice, Run};

const BYTES: u64 = 1 << 16;

fn extents(runs: &[(u64, u64)]) -> Extents {
    Extents::new(runs.iter().map(|(offset, bytes)| Run { offset: *offset, bytes: *bytes })).unwrap()
}

fn buffer(fill: u8, bytes: usize) -> Buffer {
    let buffer = Buffer::new(bytes.next_multiple_of(4096)).unwrap().part(0, bytes);
    buffer.copy_in(&vec![fill; bytes]).unwrap();
    buffer
}

fn finish(device: &mut impl Device, count: usize) -> Vec<Completion> {
    let mut taken = Vec::new();
    for _ in 0..10_000 {
        if taken.len() >= count {
            return taken;
        }
        device.reap(Some(Duration::from_secs(1)), &mut taken).unwrap();
    }
    panic!("not all has completed");
}

#[test]
fn bytes_over_several_extents_come_back_and_others_stay() {
    let runs = [(4096, 1024), (512, 512), (8192, 4096)];
    let mut area = AreaDevice::new(MemoryDevice::new(BYTES), extents(&runs)).unwrap();
    assert_eq!(area.geometry().bytes, 5632);
    let write = Request::Write { offset: 512, from: buffer(7, 2048), durable: true };
    area.begin(1, write).unwrap();
    assert_eq!(finish(&mut area, 1), [Completion { token: 1, result: Ok(()) }]);
    let into = buffer(9, 5632);
    area.begin(2, Request::Read { offset: 0, into: into.clone() }).unwrap();
    finish(&mut area, 1);
    let found = into.copy_out().unwrap();
    let is_meant = |at: usize| (512..2560).contains(&at);
    assert!(found.iter().enumerate().all(|(at, byte)| *byte == if is_meant(at) { 7 } else { 0 }));
    let mut whole = vec![0; BYTES as usize];
    area.inner().image().read(0, &mut whole).unwrap();
    let written = |at: usize| matches!(at, 512..1024 | 4608..5120 | 8192..9216);
    assert!(whole.iter().enumerate().all(|(at, byte)| *byte == if written(at) { 7 } else { 0 }));
}

#[test]
fn nothing_beyond_the_end_is_begun_and_a_place_beyond_the_device_is_none() {
    let mut area = AreaDevice::new(MemoryDevice::new(BYTES), extents(&[(512, 1024)])).unwrap();
    let wanted = BeginError::OutOfRange { offset: 1024, bytes: 512, limit: 1024 };
    let write = Request::Write { offset: 1024, from: buffer(1, 512), durable: false };
    assert_eq!(area.begin(1, write), Err(wanted));
    let beyond = AreaDevice::new(MemoryDevice::new(BYTES), extents(&[(BYTES, 512)]));
    assert!(matches!(beyond, Err(BeginError::OutOfRange { .. })));
}

#[test]
fn more_parts_than_the_device_takes_at_once_are_done_all_the_same() {
    let runs: Vec<_> = (0..20).map(|at| (at * 1024, 512)).collect();
    let inner = MemoryDevice::new(BYTES).with_depth(3).in_random_order(5);
    let mut area = AreaDevice::new(inner, extents(&runs)).unwrap();
    assert_eq!(area.depth(), 3);
    for token in 0..3 {
        let fill = token as u8 + 1;
        area.begin(token, Request::Write { offset: 0, from: buffer(fill, 10_240), durable: false })
            .unwrap();
    }
    assert_eq!(area.begin(3, Request::Flush), Err(BeginError::Full { depth: 3 }));
    assert_eq!(finish(&mut area, 3).len(), 3);
    area.begin(4, Request::Zero { offset: 0, bytes: 10_240 }).unwrap();
    finish(&mut area, 1);
    let mut whole = vec![0; BYTES as usize];
    area.inner().image().read(0, &mut whole).unwrap();
    assert!(whole.iter().all(|byte| *byte == 0));
}

#[test]
fn a_part_that_fails_makes_the_whole_fail_once() {
    let faults = Faults::new(1);
    faults.script(1, Fault::Error { errno: 5 });
    faults.script(2, Fault::QueueFull);
    let inner = FaultDevice::new(MemoryDevice::new(BYTES), faults);
    let mut area = AreaDevice::new(inner, extents(&[(0, 512), (4096, 512), (1024, 512)])).unwrap();
    area.begin(1, Request::Write { offset: 0, from: buffer(1, 1536), durable: false }).unwrap();
    let failed = Err(BlockError::Device { errno: 5 });
    assert_eq!(finish(&mut area, 1), [Completion { token: 1, result: failed }]);
    area.begin(2, Request::Flush).unwrap();
    assert_eq!(finish(&mut area, 1), [Completion { token: 2, result: Ok(()) }]);
}
