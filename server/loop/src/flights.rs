//! Which requests the kernel has for a session's operations, by the operations' places.

use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::Flight;

/// At most one request for each operation, which keeps its place until that has completed.
#[derive(Default)]
pub struct Flights {
    places: Vec<Option<Flight>>,
    count: usize,
}

impl Flights {
    /// The kernel has a request for an operation.
    pub fn insert(&mut self, operation: ObjectId, flight: Flight) {
        let place = operation.index as usize;
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        if let Some(found) = self.places.get_mut(place) {
            self.count += usize::from(found.replace(flight).is_none());
        }
    }

    /// The request of an operation.
    pub fn get(&self, operation: ObjectId) -> Option<Flight> {
        *self.places.get(operation.index as usize)?
    }

    /// It has completed.
    pub fn remove(&mut self, operation: ObjectId) {
        if let Some(found) = self.places.get_mut(operation.index as usize) {
            self.count -= usize::from(found.take().is_some());
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Flight> + '_ {
        self.places.iter().flatten().copied()
    }
}
