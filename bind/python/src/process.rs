//! What belongs to the process that made it: sessions, regions and pins do not survive a fork.
//!
//! A forked child has copies of all of them, in memory that it shares with its parent. Using them
//! is refused, and dropping them leaves the parent's alone: a child that took its parent's pin
//! back would let the producer rewrite what the parent reads.

use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use heliostat_base::process::pid;
use heliostat_client::session;
use pyo3::prelude::*;

use crate::error;

/// The process whose session this is; 0 before the first.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A value that only the process which made it may use or end.
pub struct Own<T> {
    value: ManuallyDrop<T>,
    pid: i32,
}

impl<T> Own<T> {
    /// The value, made by this process.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), pid: pid() }
    }

    /// The value, or the exception `Forked` in a child of the process that made it.
    pub fn get(&self) -> PyResult<&T> {
        match self.is_own() {
            true => Ok(&self.value),
            false => Err(error::forked()),
        }
    }

    /// Whether this process made it.
    pub fn is_own(&self) -> bool {
        self.pid == pid()
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_own() {
            // SAFETY: dropped here and nowhere else; nobody can use it after this drop.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// Says where the control plane listens. Once per process image: the first path stays.
#[pyfunction]
pub fn configure(socket_path: String, program: String) {
    session::configure(socket_path, program);
}

/// In the child of a fork: closes the parent's session, whose end the control plane would
/// otherwise not notice while this child lives.
#[pyfunction]
pub fn forget_after_fork() {
    let before = OWNER.swap(0, AcqRel);
    if before != 0 && before != pid() {
        session::forget_in_forked_child();
    }
}

/// Before the session is used: a fork that Python did not see (made by a library) is noticed here.
pub fn claim_session() {
    let own = pid();
    if OWNER.load(Acquire) != own {
        forget_after_fork();
        OWNER.store(own, std::sync::atomic::Ordering::Release);
    }
}
