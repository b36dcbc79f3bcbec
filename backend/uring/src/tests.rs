//! The io_uring's operations: what they do, and what they keep.

use super::*;
use heliostat_base::mapping::Access;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) fn file() -> (std::fs::File, Arc<OwnedFd>) {
    // A name of each test's own: two at once would have one file.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("heliostat-uring-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = std::fs::OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true);
    let file = options.open(&path).expect("a folder for files");
    let _ = std::fs::remove_file(&path);
    let shared = Arc::new(OwnedFd::from(file.try_clone().expect("a descriptor is free")));
    (file, shared)
}

/// Whether the kernel refuses every io_uring whatever it is asked for, as the default filters of
/// containers have it do: without parameters the call fails in any case, allowed with EFAULT.
pub(crate) fn refuses_rings() -> bool {
    // SAFETY: the kernel is given no memory.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()) };
    assert_eq!(answer, -1, "nothing was asked for");
    let is_refused = io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT);
    if is_refused {
        eprintln!("skipped: io_uring_setup(2) is refused here");
    }
    is_refused
}

/// A ring, unless there can be none here.
fn ring<T>(entries: u32, most: u32) -> Option<Uring<T>> {
    (!refuses_rings()).then(|| Uring::create(entries, most).expect("io_uring"))
}

fn next<T>(ring: &mut Uring<T>) -> (T, i32) {
    loop {
        if let Some(found) = ring.reap() {
            return found;
        }
        ring.sleep(Some(Duration::from_secs(20))).expect("slept");
    }
}

#[test]
fn a_file_becomes_as_long_as_is_said_where_the_kernels_ring_cannot() {
    let (plain, shared) = file();
    let (_other, reader) = UnixStream::pair().expect("a pair");
    let no_file = Arc::new(OwnedFd::from(reader));
    plain.write_all_at(b"hello", 0).expect("written");
    let Some(mut ring) = ring(8, 16) else { return };
    ring.truncates = false;
    for bytes in [2, 9, 0] {
        ring.truncate(bytes, &shared, bytes).expect("room");
        assert_eq!(next(&mut ring), (bytes, 0));
        assert_eq!(plain.metadata().expect("open").len(), bytes);
    }
    ring.truncate(7, &no_file, 1).expect("room");
    assert_eq!((next(&mut ring), ring.under_way()), ((7, -libc::EINVAL), 0));
}

#[test]
fn a_word_that_changes_and_a_bell_wake_the_sleeper() {
    let (fd, memory) = SharedMapping::create(c"words", 4096).expect("created");
    let memory = Arc::new(memory);
    let Some(mut ring) = ring(8, 16) else { return };
    ring.wait_word("changed", &memory, 64, 7).expect("room");
    assert_eq!(next(&mut ring), ("changed", -libc::EAGAIN));
    ring.wait_word("woken", &memory, 64, 0).expect("room");
    let theirs = SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::ReadWrite);
    let theirs = theirs.expect("mapped");
    let waker = std::thread::spawn(move || {
        while heliostat_base::futex::wake(theirs.atomic_u32(64), 1) == 0 {
            std::thread::yield_now();
        }
    });
    assert_eq!(next(&mut ring), ("woken", 0));
    waker.join().expect("it woke somebody");
}

#[test]
fn what_is_cancelled_completes_and_a_full_ring_says_so() {
    let (_fd, memory) = SharedMapping::create(c"words", 4096).expect("created");
    let memory = Arc::new(memory);
    let Some(mut ring) = ring(2, 2) else { return };
    let first = ring.wait_word(1, &memory, 0, 0).expect("room");
    ring.wait_word(2, &memory, 64, 0).expect("room");
    assert!(matches!(ring.wait_word(3, &memory, 128, 0), Err(NotPrepared::Full)));
    ring.submit().expect("submitted");
    ring.cancel(first);
    assert_eq!(next(&mut ring), (1, -libc::ECANCELED));
    assert_eq!(ring.under_way(), 1);
}

#[test]
fn memory_stays_mapped_while_the_kernel_may_touch_it() {
    let (_fd, memory) = SharedMapping::create(c"words", 4096).expect("created");
    let memory = Arc::new(memory);
    let Some(mut ring) = ring(2, 2) else { return };
    ring.wait_word((), &memory, 0, 0).expect("room");
    ring.submit().expect("submitted");
    assert_eq!(Arc::strong_count(&memory), 2);
    drop(ring);
    assert_eq!(Arc::strong_count(&memory), 2, "kept for ever");
}

#[test]
fn a_piece_that_is_read_into_often_is_pinned_and_given_back() {
    const MIB: usize = 1 << 20;
    let (plain, shared) = file();
    let content: Vec<u8> = (0..MIB).map(|at| (at / 5 % 251) as u8).collect();
    plain.write_all_at(&content, 0).expect("room on the disk");
    let Some(mut ring) = ring(8, 16) else { return };
    let window = || Arc::new(SharedMapping::create(c"window", 5 * MIB).expect("created").1);
    // More windows, one after the other, than may be pinned at once.
    for round in 0..20 {
        let memory = window();
        let mut found = vec![0; MIB];
        for place in [0, MIB, 2 * MIB, 3 * MIB, 4 * MIB].into_iter().cycle().take(30) {
            let into = [Range { offset: place, len: MIB }];
            memory.copy_in(place, &[0; 4096]).expect("inside");
            ring.read(round, &shared, 0, (&memory, &into), Manner::Direct).expect("room");
            assert_eq!(next(&mut ring), (round, MIB as i32));
            memory.copy_out(place, &mut found).expect("inside");
            assert!(found == content, "round {round}, at {place}");
        }
        assert_eq!(ring.pinned.count(), 3, "of 5 MiB, the last piece being half a one");
        ring.forget(&memory);
        assert_eq!((ring.pinned.count(), Arc::strong_count(&memory)), (0, 1));
    }
}

#[test]
fn a_range_across_pieces_or_beyond_its_mapping_is_never_pinned() {
    let (plain, shared) = file();
    plain.write_all_at(&[7; 8192], 0).expect("room on the disk");
    let (_fd, memory) = SharedMapping::create(c"window", 4 << 20).expect("created");
    let memory = Arc::new(memory);
    let Some(mut ring) = ring(8, 16) else { return };
    let across = [Range { offset: (2 << 20) - 4096, len: 8192 }];
    for _ in 0..1500 {
        ring.read(1, &shared, 0, (&memory, &across), Manner::Direct).expect("room");
        assert_eq!(next(&mut ring), (1, 8192));
    }
    assert_eq!(ring.pinned.count(), 0);
    let beyond = [Range { offset: (4 << 20) - 4096, len: 8192 }];
    let refused = ring.read(2, &shared, 0, (&memory, &beyond), Manner::Direct);
    assert!(matches!(refused, Err(NotPrepared::Range(_))));
}

#[test]
fn requests_go_by_the_kernels_ring_wherever_it_gives_one() {
    let wanted = if refuses_rings() { By::Threads } else { By::Uring };
    assert_eq!(By::available(), wanted);
}

#[test]
fn a_kernel_that_cannot_wait_for_a_word_is_refused() {
    assert!(has_all(|_| true).is_ok());
    let error = has_all(|code| code != opcode::FutexWait::CODE).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}
