//! What a server loop asks for comes back the same by an io_uring and by threads.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::*;
use crate::tests::{file, refuses_rings};
use crate::Direction;

/// Requests made in every way that there is here.
fn all<T>() -> Vec<Requests<T>> {
    let ways = [By::Threads, By::Uring].into_iter().take(if refuses_rings() { 1 } else { 2 });
    ways.map(|by| Requests::create(by, 8, 16).expect("the kernel has it")).collect()
}

fn next<T>(requests: &mut Requests<T>) -> (T, i32) {
    loop {
        if let Some(found) = requests.reap() {
            return found;
        }
        requests.sleep(Some(Duration::from_secs(20))).expect("slept");
    }
}

#[test]
fn bytes_go_to_a_file_and_back_in_pieces() {
    for mut requests in all() {
        let (plain, shared) = file();
        let (_fd, memory) = SharedMapping::create(c"window", 8192).expect("created");
        let memory = Arc::new(memory);
        memory.copy_in(100, b"hello world").expect("inside");
        let from = [Range { offset: 106, len: 5 }, Range { offset: 100, len: 6 }];
        requests.write(1, &shared, 10, (&memory, &from), Manner::Plain).expect("room");
        assert_eq!(next(&mut requests), (1, 11));
        requests.write(2, &shared, 0, (&memory, &from[..1]), Manner::Append).expect("room");
        assert_eq!(next(&mut requests), (2, 5));
        requests.fsync(3, &shared).expect("room");
        assert_eq!(next(&mut requests), (3, 0));
        let mut bytes = [0; 16];
        plain.read_exact_at(&mut bytes, 10).expect("written");
        assert_eq!(&bytes, b"worldhello world");
        let into = [Range { offset: 4096, len: 16 }];
        requests.read(4, &shared, 10, (&memory, &into), Manner::Plain).expect("room");
        assert_eq!(next(&mut requests), (4, 16));
        memory.copy_out(4096, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"worldhello world");
    }
}

#[test]
fn a_file_becomes_as_long_as_is_said() {
    for mut requests in all() {
        let (plain, shared) = file();
        plain.write_all_at(b"hello", 0).expect("written");
        for bytes in [2, 9, 0] {
            requests.truncate(bytes, &shared, bytes).expect("room");
            assert_eq!(next(&mut requests), (bytes, 0));
            assert_eq!(plain.metadata().expect("open").len(), bytes);
        }
    }
}

#[test]
fn ranges_outside_the_mapping_are_refused() {
    for mut requests in all() {
        let (_plain, shared) = file();
        let (_fd, memory) = SharedMapping::create(c"window", 4096).expect("created");
        let beyond = [Range { offset: 4000, len: 97 }];
        let answer = requests.read((), &shared, 0, (&Arc::new(memory), &beyond), Manner::Plain);
        assert!(matches!(answer, Err(NotPrepared::Range(_))));
        assert!(!requests.has_completions());
    }
}

#[test]
fn a_descriptor_tells_each_time_it_is_asked_about() {
    for mut requests in all() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let reader = Arc::new(OwnedFd::from(reader));
        for round in 0..3 {
            requests.readable(round, &reader).expect("room");
            requests.sleep(Some(Duration::from_millis(1))).expect("timed out");
            assert_eq!(requests.reap(), None, "nothing to read yet");
            std::io::Write::write_all(&mut &writer, b"x").expect("room in the pipe");
            assert_eq!(next(&mut requests), (round, libc::POLLIN.into()));
            let mut byte = [0];
            // SAFETY: one writable byte.
            assert_eq!(unsafe { libc::read(reader.as_raw_fd(), byte.as_mut_ptr().cast(), 1) }, 1);
        }
    }
}

#[test]
fn a_range_is_zeroed_given_back_and_flushed() {
    for mut requests in all() {
        let (plain, shared) = file();
        plain.write_all_at(&[7; 4 * 4096], 0).expect("written");
        requests.allocate(1, &shared, (4096, 4096), Allocation::Zero).expect("room");
        let (_, zeroed) = next(&mut requests);
        requests.allocate(2, &shared, (2 * 4096, 4096), Allocation::Discard).expect("room");
        let (_, discarded) = next(&mut requests);
        requests.fdatasync(3, &shared).expect("room");
        assert_eq!(next(&mut requests), (3, 0));
        let mut bytes = vec![9; 4 * 4096];
        plain.read_exact_at(&mut bytes, 0).expect("as long as before");
        let firsts: Vec<u8> = bytes.chunks(4096).map(|page| page[0]).collect();
        let value = |result| if result == 0 { 0 } else { 7 };
        let not_there = |result| [0, -libc::EOPNOTSUPP].contains(&result);
        assert!(not_there(zeroed) && not_there(discarded), "{zeroed} {discarded}");
        assert_eq!(firsts, [7, value(zeroed), value(discarded), 7]);
    }
}

#[test]
fn a_durable_write_goes_by_every_way_and_by_a_call_of_its_own() {
    let (_fd, memory) = SharedMapping::create(c"window", 8192).expect("created");
    let memory = Arc::new(memory);
    memory.copy_in(4096, b"durable").expect("inside");
    let range = Range { offset: 4096, len: 7 };
    for mut requests in all() {
        let (plain, shared) = file();
        requests.write(1, &shared, 3, (&memory, &[range]), Manner::Durable).expect("room");
        assert_eq!(next(&mut requests), (1, 7));
        let alone =
            crate::transfer(Direction::Write, &shared, 10, (&memory, range), Manner::Durable);
        assert!(matches!(alone, Ok(7)));
        let mut bytes = [0; 14];
        plain.read_exact_at(&mut bytes, 3).expect("written");
        assert_eq!(&bytes, b"durabledurable");
        let into = Range { offset: 0, len: 14 };
        let read = crate::transfer(Direction::Read, &shared, 3, (&memory, into), Manner::Plain);
        assert!(matches!(read, Ok(14)));
        memory.copy_out(0, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"durabledurable");
        let beyond = Range { offset: 8190, len: 3 };
        let refused =
            crate::transfer(Direction::Read, &shared, 3, (&memory, beyond), Manner::Plain);
        assert!(matches!(refused, Err(NotPrepared::Range(_))));
    }
}
