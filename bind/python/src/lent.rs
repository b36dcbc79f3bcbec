//! A value together with what is borrowed from it: a queue and the slot that is being written, a
//! consumer and the item that it holds. Python cannot keep lifetimes, so this does.

use std::ptr::NonNull;

/// A `T`, and a `B` made from a mutable borrow of it. While there is a `B`, nobody has the `T`.
pub struct Lent<T, B> {
    part: Option<B>,
    whole: NonNull<T>,
}

// SAFETY: it owns a `T` and a `B`, and neither is shared but by reference to this.
unsafe impl<T: Send, B: Send> Send for Lent<T, B> {}

impl<T: 'static, B> Lent<T, B> {
    /// Takes the whole over, of which nothing is lent.
    pub fn new(whole: T) -> Self {
        Self { part: None, whole: NonNull::from(Box::leak(Box::new(whole))) }
    }

    /// The whole; `None` while a part is lent.
    pub fn whole(&mut self) -> Option<&mut T> {
        match self.part {
            Some(_) => None,
            // SAFETY: it lives until this is dropped, and without a part nobody else borrows it.
            None => Some(unsafe { self.whole.as_mut() }),
        }
    }

    /// Makes a part, in place of none. `None` when one is lent already.
    ///
    /// # Safety
    ///
    /// `make` keeps nothing of its argument but in its answer, and whoever ends the part drops it
    /// before this.
    pub unsafe fn lend<E>(
        &mut self,
        make: impl FnOnce(&'static mut T) -> Result<B, E>,
    ) -> Option<Result<(), E>> {
        if self.part.is_some() {
            return None;
        }
        // SAFETY: nobody else borrows it; the part is dropped before it (`drop`, and the contract).
        let made = make(unsafe { self.whole.as_mut() });
        Some(made.map(|part| self.part = Some(part)))
    }

    /// The part that is lent.
    pub fn part(&self) -> Option<&B> {
        self.part.as_ref()
    }

    /// Ends the lending: the part, to be dropped at once.
    pub fn end(&mut self) -> Option<B> {
        self.part.take()
    }
}

impl<T, B> Drop for Lent<T, B> {
    fn drop(&mut self) {
        self.part = None;
        // SAFETY: made by Box::leak in `new`, dropped here only; nothing borrows it any more.
        drop(unsafe { Box::from_raw(self.whole.as_ptr()) });
    }
}
