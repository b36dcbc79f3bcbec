//! What the control plane tells a listener's thread, and what that tells in return: neither waits.
//!
//! ```text
//! control plane --> orders --bell--> thread, whose alone the state is
//!               <-- told: a copy of what people are told, made after a batch of work
//! ```
//! The thread may sleep in the kernel for as long as a worker pleases (`balancer`). So no lock is held
//! over work: these two are held while something is put in, or taken out.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::state::{ListenerState, State};

/// A thread that is behind by so many orders is asked for nothing more.
pub const ORDERS_MAX: usize = 256;

/// One order: done with the state, at a monotonic time.
pub type Order = Box<dyn FnOnce(&mut State, u64) + Send>;

/// The way between the two.
pub struct Orders {
    waiting: Mutex<VecDeque<Order>>,
    told: Mutex<ListenerState>,
    /// Rings when there is an order, or a thread has accepted something.
    pub bell: OwnedFd,
}

impl Orders {
    /// Nothing is ordered or told yet.
    pub fn new(bell: OwnedFd) -> Orders {
        Orders { waiting: Mutex::default(), told: Mutex::default(), bell }
    }

    /// Gives an order.
    pub fn give(&self, order: Order) {
        lock(&self.waiting).push_back(order);
        // It is full only where the thread has not read it for very long, and will.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Whether the thread is too far behind for more.
    pub fn is_full(&self) -> bool {
        lock(&self.waiting).len() >= ORDERS_MAX
    }

    /// Takes all that were given.
    pub fn take(&self) -> VecDeque<Order> {
        std::mem::take(&mut *lock(&self.waiting))
    }

    /// Tells what there is now.
    pub fn tell(&self, told: ListenerState) {
        let before = std::mem::replace(&mut *lock(&self.told), told);
        drop(before);
    }

    /// What was told last.
    pub fn told(&self) -> ListenerState {
        lock(&self.told).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
