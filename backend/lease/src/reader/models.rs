//! Loom: the orders P1 and P2 of a leased view, explored over all interleavings.
//!
//! Files are atomics of one byte that anybody may read at any time; the kernel's calls are full fences,
//! as they are. A file that is written after its promise has ended then says 9, and a copy of that
//! must not count, whatever was mapped meanwhile.

use loom::sync::Arc;
use loom::thread;

use super::*;
use heliostat_base::sync::full_fence;

const WRITTEN: u32 = 9;

/// Two files, of which one may be mapped.
struct Files {
    mapped: AtomicU32,
    bytes: [AtomicU32; 2],
}

impl View for Files {
    fn map(&self, fd: i32, _bytes: usize) -> Result<(), Errno> {
        self.mapped.store(fd as u32, Relaxed);
        Ok(())
    }

    fn unmap(&self) {
        self.mapped.store(0, Relaxed);
    }

    fn read(&self, _at: usize, into: &mut [u8]) -> Result<usize, Fault> {
        match self.mapped.load(Relaxed) {
            0 => Ok(0), // as where the length of the view is gone already
            file => {
                into[0] = self.bytes[file as usize - 1].load(Relaxed) as u8;
                Ok(1)
            }
        }
    }
}

struct World {
    view: LeasedView<Files>,
    leases: [Promise; 2],
    life: Promise,
}

impl World {
    fn new() -> Arc<Self> {
        let word = |value| Promise { word: Box::leak(Box::new(AtomicU32::new(value))), value };
        let bytes = [AtomicU32::new(1), AtomicU32::new(2)];
        let files = Files { mapped: AtomicU32::new(0), bytes };
        let (lease, life) = (Kept::empty(), Kept::empty());
        let view = LeasedView { version: AtomicU32::new(0), view: files, lease, life };
        Arc::new(Self { view, leases: [word(5), word(7)], life: word(3) })
    }

    fn map(&self, file: usize) {
        self.view.map(file as i32 + 1, 1, self.leases[file], self.life).expect("maps");
    }

    /// The control plane ends a promise, and gives the lease back, upon which the file is written.
    fn write(&self, file: usize) {
        self.leases[file].end(6);
        full_fence();
        self.view.view.bytes[file].store(WRITTEN, Relaxed);
    }

    fn read(&self) -> Option<u8> {
        let mut into = [0];
        let bytes = self.view.read(0, &mut into).ok()?;
        assert_eq!(bytes, 1, "an end that is not there");
        Some(into[0])
    }
}

fn model(preemptions: usize, f: impl Fn(Arc<World>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || f(World::new()));
}

#[test]
fn loom_bytes_that_were_written_after_the_promise_do_not_count() {
    model(4, |world| {
        world.map(0);
        let writers = world.clone();
        let writer = thread::spawn(move || writers.write(0));
        let read = world.read();
        assert!(read.is_none() || read == Some(1), "{read:?}");
        writer.join().unwrap();
        assert_eq!(world.read(), None);
    });
}

#[test]
fn loom_the_end_of_the_control_plane_ends_all_promises() {
    model(4, |world| {
        world.map(0);
        let kernels = world.clone();
        let writer = thread::spawn(move || {
            kernels.life.end(0);
            full_fence();
            kernels.view.view.bytes[0].store(WRITTEN, Relaxed);
        });
        let read = world.read();
        assert!(read.is_none() || read == Some(1), "{read:?}");
        writer.join().unwrap();
    });
}

#[test]
fn loom_what_was_read_of_one_mapping_does_not_count_under_the_promise_of_the_next() {
    model(3, |world| {
        world.map(0);
        let owners = world.clone();
        let owner = thread::spawn(move || {
            owners.write(0);
            owners.view.unmap();
            owners.map(1);
        });
        let read = world.read();
        assert!(matches!(read, None | Some(1 | 2)), "{read:?}");
        owner.join().unwrap();
        assert_eq!(world.read(), Some(2));
    });
}

#[test]
fn loom_a_reader_that_comes_first_or_last_finds_a_mapping_or_none() {
    model(4, |world| {
        let owners = world.clone();
        let owner = thread::spawn(move || {
            owners.map(1);
            owners.view.unmap();
        });
        assert!(matches!(world.read(), None | Some(2)));
        owner.join().unwrap();
        assert_eq!(world.read(), None);
    });
}
