//! A value together with what is borrowed from it: a queue and the slot that is being written, a
//! consumer and the item that it holds. Python cannot keep lifetimes, so this does.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::error;

/// A `T`, and a `B` made from a mutable borrow of it, for the threads of one process, which take
/// turns. While there is a `B`, nobody has the `T`.
pub struct Lent<T, B>(Arc<Mutex<Option<Pair<T, B>>>>, Words);

/// What the exceptions say.
#[derive(Clone, Copy)]
pub struct Words {
    /// The whole was asked for while a part of it is lent.
    pub busy: &'static str,
    /// What the whole is, for when it is closed.
    pub whole: &'static str,
}

impl<T, B> Clone for Lent<T, B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.1)
    }
}

impl<T: Send + 'static, B: Send> Lent<T, B> {
    /// Takes the whole over, of which nothing is lent.
    pub fn new(whole: T, words: Words) -> Self {
        Self(Arc::new(Mutex::new(Some(Pair::new(whole)))), words)
    }

    fn turn(&self) -> MutexGuard<'_, Option<Pair<T, B>>> {
        // A panic under the lock leaves a whole that is as it was before the call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the whole, without the interpreter's lock. BufferError while a part is lent,
    /// ValueError once it is closed.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        py.detach(|| {
            let mut turn = self.turn();
            let pair = turn.as_mut().ok_or_else(|| error::closed(self.1.whole))?;
            Ok(work(pair.whole().ok_or_else(|| PyBufferError::new_err(self.1.busy))?))
        })
    }

    /// Makes a part, and answers what `facts` says of it; `None` when `make` found none. Raises as
    /// `with`.
    ///
    /// # Safety
    ///
    /// `make` keeps nothing of its argument but in its answer.
    pub unsafe fn lend<R: Send>(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&'static mut T) -> PyResult<Option<B>> + Send,
        facts: impl FnOnce(&B) -> R + Send,
    ) -> PyResult<Option<R>> {
        py.detach(|| {
            let mut turn = self.turn();
            let pair = turn.as_mut().ok_or_else(|| error::closed(self.1.whole))?;
            if pair.part.is_some() {
                return Err(PyBufferError::new_err(self.1.busy));
            }
            // SAFETY: nobody else borrows it, the turn being ours and no part lent; the part is
            // dropped before it (`end`, `Pair::drop`).
            pair.part = make(unsafe { pair.whole.as_mut() })?;
            Ok(pair.part.as_ref().map(facts))
        })
    }

    /// Ends the lending by `work`; `None` when nothing is lent. The interpreter's lock may be held:
    /// nobody keeps a turn for long while a part is lent.
    pub fn end<R>(&self, work: impl FnOnce(B) -> R) -> Option<R> {
        // The part is used up before the turn is over.
        self.turn().as_mut()?.part.take().map(work)
    }

    /// Ends the whole, after what is lent of it. Again: nothing.
    pub fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.turn().take()));
    }
}

struct Pair<T, B> {
    part: Option<B>,
    whole: NonNull<T>,
}

// SAFETY: it owns a `T` and a `B`, and neither is shared but by reference to this.
unsafe impl<T: Send, B: Send> Send for Pair<T, B> {}

impl<T, B> Pair<T, B> {
    fn new(whole: T) -> Self {
        Self { part: None, whole: NonNull::from(Box::leak(Box::new(whole))) }
    }

    fn whole(&mut self) -> Option<&mut T> {
        match self.part {
            Some(_) => None,
            // SAFETY: it lives until this is dropped, and without a part nobody else borrows it.
            None => Some(unsafe { self.whole.as_mut() }),
        }
    }
}

impl<T, B> Drop for Pair<T, B> {
    fn drop(&mut self) {
        self.part = None;
        // SAFETY: made by Box::leak in `new`, dropped here only; nothing borrows it any more.
        drop(unsafe { Box::from_raw(self.whole.as_ptr()) });
    }
}
