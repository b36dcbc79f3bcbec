//! The lean interface of this process: its memory, and a pool of buffers in it.
//!
//! What is read or written lies in the window that the host sees too; a buffer of it is taken for one
//! operation, and given back. The bytes are then copied once, into the worker's own memory.

pub mod files;
pub mod foreign;
pub mod sockets;

use std::io;
use std::sync::{Condvar, Mutex, OnceLock};

/// Bytes of one buffer of the pool.
pub const BUFFER_BYTES: usize = 256 * 1024;

/// The memory that this worker was started with.
#[derive(Debug)]
pub struct Memory {
    pub worker: usize,
    pub workers: usize,
    free: Mutex<Vec<foreign::Buffer>>,
    given_back: Condvar,
}

static MEMORY: OnceLock<Result<Memory, i32>> = OnceLock::new();

/// Maps the memory, once for the process.
///
/// # Errors
/// `NotFound`: this process was not started by `heliostat coprocessor run`; others as of mmap(2).
pub fn attach() -> io::Result<&'static Memory> {
    let attached = MEMORY.get_or_init(|| {
        let payload = foreign::attach()?;
        let free = payload.buffers;
        Ok(Memory {
            worker: payload.worker,
            workers: payload.workers,
            free: Mutex::new(free),
            given_back: Condvar::new(),
        })
    });
    attached.as_ref().map_err(|number| io::Error::from_raw_os_error(*number))
}

impl Memory {
    /// Does something with a buffer that nobody else has; waits until one is free.
    pub fn with_buffer<T>(&self, does: impl FnOnce(&mut foreign::Buffer) -> T) -> T {
        let mut free = self.free.lock().expect("no thread panicked");
        let mut buffer = loop {
            match free.pop() {
                Some(buffer) => break buffer,
                None => free = self.given_back.wait(free).expect("no thread panicked"),
            }
        };
        drop(free);
        let done = does(&mut buffer);
        self.free.lock().expect("no thread panicked").push(buffer);
        self.given_back.notify_one();
        done
    }
}
