//! Loom: the order O1 of an offset, explored over all interleavings.
//!
//! A byte is read by who advances our word, or by a call of the kernel's that moves its own. Each must
//! be read once, whoever has the offset: then the offset at the end is the count of what was read.

use loom::sync::Arc;
use loom::thread;

use super::*;

/// Two files, one after the other, in one word.
struct File {
    offset: Offset,
    kernels: Kernel,
}

/// The kernel's offset; its calls take its own lock.
struct Kernel(AtomicU64);

impl Kernels for Kernel {
    fn offset(&self) -> Option<u64> {
        Some(self.0.load(Acquire))
    }
    fn seek(&self, offset: u64) {
        self.0.swap(offset, AcqRel);
    }
}

impl File {
    /// Reads a byte by the mapping, if the offset can be had; how many were read.
    fn read_ours(&self) -> u64 {
        self.offset.adopt(&self.kernels);
        let Some(seen) = self.offset.ours() else { return 0 };
        u64::from(self.offset.advance(seen, seen.offset() + 1))
    }

    /// Has the kernel read a byte.
    fn read_kernels(&self) -> u64 {
        let entered = self.offset.enter(&self.kernels);
        self.kernels.0.fetch_add(1, AcqRel);
        if let Some(entered) = entered {
            self.offset.leave(entered);
        }
        1
    }

    /// Where the file is read next, by the kernel's account.
    fn settled(&self) -> u64 {
        self.offset.give_back(&self.kernels, false);
        self.kernels.0.load(Acquire)
    }
}

fn model(preemptions: usize, f: impl Fn(Arc<File>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        f(Arc::new(File { offset: Offset::new(), kernels: Kernel(AtomicU64::new(0)) }))
    });
}

#[test]
fn loom_each_byte_is_read_once_whoever_has_the_offset() {
    model(4, |file| {
        let other = file.clone();
        let thread = thread::spawn(move || other.read_ours() + other.read_ours());
        let read = file.read_kernels() + file.read_ours();
        let read = read + thread.join().unwrap();
        assert_eq!(file.settled(), read);
    });
}

#[test]
fn loom_two_readers_and_a_call_of_the_kernels_read_each_byte_once() {
    model(2, |file| {
        let threads = [(); 2].map(|()| {
            let other = file.clone();
            thread::spawn(move || other.read_ours())
        });
        let read = file.read_kernels();
        let read = read + threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>();
        assert_eq!(file.settled(), read);
    });
}

#[test]
fn loom_an_offset_that_another_process_may_move_is_not_taken_again() {
    model(4, |file| {
        let other = file.clone();
        let thread = thread::spawn(move || other.read_ours());
        file.offset.give_back(&file.kernels, true);
        // From here on another process may move it.
        let at = file.kernels.0.fetch_add(10, AcqRel);
        let read = thread.join().unwrap();
        assert_eq!(at, read);
        assert!(!file.offset.adopt(&file.kernels) && file.offset.is_shared());
        assert_eq!(file.settled(), read + 10);
    });
}

#[test]
fn loom_a_file_that_begins_while_the_one_before_is_moved_keeps_its_version() {
    for is_shared in [false, true] {
        model(4, move |file| {
            assert!(file.offset.adopt(&file.kernels));
            let other = file.clone();
            let late = thread::spawn(move || other.offset.enter(&other.kernels));
            // The descriptor is closed, and opened again.
            file.offset.begin(is_shared);
            assert_eq!(file.offset.is_shared(), is_shared);
            let next = file.offset.enter(&file.kernels);
            assert_eq!(next, (!is_shared).then_some(Entered(1)));
            for entered in [late.join().unwrap(), next].into_iter().flatten() {
                file.offset.leave(entered);
            }
            assert_eq!(file.offset.adopt(&file.kernels), !is_shared);
        });
    }
}

#[test]
fn loom_a_file_that_begins_while_the_one_before_is_taken_over_keeps_its_version() {
    model(4, |file| {
        let other = file.clone();
        let late = thread::spawn(move || other.offset.adopt(&other.kernels));
        file.offset.begin(true);
        assert!(file.offset.is_shared(), "another process moves it");
        late.join().unwrap();
        assert!(!file.offset.adopt(&file.kernels) && file.offset.is_shared());
    });
}

#[test]
fn loom_a_call_that_ends_late_is_no_call_of_the_next_file() {
    model(4, |file| {
        let entered = file.offset.enter(&file.kernels).expect("is not shared");
        let other = file.clone();
        let late = thread::spawn(move || other.offset.leave(entered));
        // The descriptor was closed meanwhile, and the word is another file's.
        file.offset.begin(false);
        let next = file.offset.enter(&file.kernels).expect("is not shared");
        late.join().unwrap();
        assert!(!file.offset.adopt(&file.kernels), "a call moves it");
        file.offset.leave(next);
        assert!(file.offset.adopt(&file.kernels));
    });
}
