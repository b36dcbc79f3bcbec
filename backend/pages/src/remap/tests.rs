//! Against the real kernel: versions stay, stores go on, and every refusal is one.

use std::os::fd::AsRawFd;

use super::*;
use heliostat_base::call;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, Writers};

const COLOURS: usize = 3;

/// Memory of `chunks` chunks, the last one short, and its pool as a reader sees it.
fn memory(chunks: usize) -> (Remapped, SharedMapping, OwnedFd) {
    let bytes = chunks * COLOURS * CHUNK_BYTES;
    let (fd, pool) =
        SharedMapping::create_for(c"remap", bytes, Writers::CreatorOnly).expect("a pool");
    let seen = SharedMapping::from_fd(fd.as_raw_fd(), bytes, Access::Read).expect("readable");
    (Remapped::new(pool, chunks * CHUNK_BYTES - 100).expect("memory"), seen, fd)
}

fn store(memory: &Remapped, at: usize, value: u8) {
    assert!(at < memory.len());
    // SAFETY: inside the memory, which lives as long as the reference.
    unsafe { memory.as_ptr().add(at).write_volatile(value) };
}

fn byte(seen: &SharedMapping, chunks: usize, colour: u8, at: usize) -> u8 {
    let slot = colour as usize * chunks + at / CHUNK_BYTES;
    let mut byte = [0];
    seen.copy_out(slot * CHUNK_BYTES + at % CHUNK_BYTES, &mut byte).expect("in the pool");
    byte[0]
}

#[test]
fn a_sealed_version_stays_while_the_memory_is_written() {
    let (memory, seen, _fd) = memory(4);
    let (mut first, at) = (vec![9; 4], 2 * CHUNK_BYTES + 77);
    store(&memory, at, 1);
    assert_eq!(memory.seal(&mut first, |_| 0), Ok(4));
    assert_eq!(first, [0; 4]);
    assert!(!memory.is_written());
    store(&memory, at, 2);
    store(&memory, at + 1, 5);
    assert_eq!(byte(&seen, 4, 0, at), 1);
    let mut second = first.clone();
    assert_eq!(memory.seal(&mut second, |chunk| 1 << first[chunk]), Ok(1));
    assert_eq!(second, [0, 0, 1, 0]);
    store(&memory, at, 3);
    store(&memory, 4 * CHUNK_BYTES - 101, 4);
    assert_eq!((byte(&seen, 4, 0, at), byte(&seen, 4, 1, at)), (1, 2));
    assert_eq!(byte(&seen, 4, 1, at + 1), 5);
}

#[test]
fn a_sealing_without_a_spare_slot_is_refused_and_stores_go_on() {
    let (memory, seen, _fd) = memory(1);
    let mut colours = vec![0];
    assert_eq!(memory.seal(&mut colours, |_| 0b110), Err(RemapError::NoSpare { chunk: 0 }));
    store(&memory, 5, 7);
    assert_eq!(byte(&seen, 1, 0, 5), 7);
    assert_eq!(memory.seal(&mut colours, |_| 0b010), Ok(1));
    store(&memory, 5, 8);
    assert_eq!((byte(&seen, 1, 0, 5), byte(&seen, 1, 2, 5)), (7, 8));
}

#[test]
fn two_threads_that_store_to_one_chunk_lose_neither_store() {
    let (memory, seen, _fd) = memory(1);
    let mut colours = vec![0];
    for round in 1..=200u8 {
        memory.seal(&mut colours, |_| 0).expect("sealed");
        let before = colours[0];
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (memory, barrier) = (&memory, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    store(memory, thread * 4096, round);
                });
            }
        });
        memory.seal(&mut colours, |_| 1 << before).expect("sealed");
        for thread in 0..3 {
            assert_eq!(byte(&seen, 1, colours[0], thread * 4096), round);
        }
    }
}

#[test]
fn the_kernels_own_writes_are_refused_unless_prepared() {
    let (memory, _seen, _fd) = memory(2);
    let mut colours = vec![0; 2];
    memory.seal(&mut colours, |_| 0).expect("sealed");
    let zeros = std::fs::File::open("/dev/zero").expect("opens");
    // SAFETY: ten bytes inside the memory, which the kernel refuses to write or writes.
    let read = || unsafe { call::pread_raw(zeros.as_raw_fd(), memory.as_ptr(), 10, None) };
    assert_eq!(read(), Err(heliostat_base::sys::Errno(libc::EFAULT)));
    memory.prepare_write(0..10).expect("prepared");
    assert_eq!(read(), Ok(10));
    assert_eq!(memory.seal(&mut colours, |_| 1), Ok(1), "what was prepared counts as written");
    assert!(memory.prepare_write(0..memory.len() + 1).is_err());
}

#[test]
fn limits_are_kept() {
    let (_fd, pool) = SharedMapping::create(c"remap", CHUNK_BYTES).expect("a pool");
    assert!(matches!(Remapped::new(pool, 0), Err(RemapError::Length { .. })));
    let (_fd, pool) = SharedMapping::create(c"remap", CHUNK_BYTES).expect("a pool");
    assert!(matches!(Remapped::new(pool, CHUNK_BYTES + 1), Err(RemapError::Length { .. })));
}
