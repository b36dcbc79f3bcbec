//! How much of one caller's waits: each call has a place until it has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_backend_transport::error::CallFailure;

use crate::limits::{BYTES_PER_CALLER_MAX, CALLS_PER_CALLER_MAX};

/// What of a caller has not ended.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    calls: usize,
    bytes: usize,
}

/// A call's place; given back when it is dropped.
pub(crate) struct Place {
    places: Places,
    bytes: usize,
}

impl Places {
    /// A place for a call of so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<Place, CallFailure> {
        let mut taken = self.lock();
        if taken.calls >= CALLS_PER_CALLER_MAX {
            return Err(CallFailure::TooMany { limit: CALLS_PER_CALLER_MAX });
        }
        if taken.bytes + bytes > BYTES_PER_CALLER_MAX {
            return Err(CallFailure::Full);
        }
        taken.calls += 1;
        taken.bytes += bytes;
        Ok(Place { places: self.clone(), bytes })
    }

    /// Calls that have one.
    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.calls -= 1;
        taken.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_a_limit_in_number_and_bytes_and_are_given_back() {
        let places = Places::default();
        let all: Vec<_> = (0..CALLS_PER_CALLER_MAX).map(|_| places.take(1).ok()).collect();
        assert!(all.iter().all(Option::is_some));
        let limit = CALLS_PER_CALLER_MAX;
        assert_eq!(places.take(1).err(), Some(CallFailure::TooMany { limit }));
        drop(all);
        assert_eq!(places.calls(), 0);
        let large = places.take(BYTES_PER_CALLER_MAX).ok();
        assert!(large.is_some());
        assert_eq!(places.take(1).err(), Some(CallFailure::Full));
    }
}
