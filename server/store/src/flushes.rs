//! Flushes: one at a time, which all share that wait for it.
//!
//! ```text
//! its turn -> none under way: begun
//!             one under way:  waits, since that one may have begun before what it is to cover
//!                             -> the next one, begun for all that wait when that one has ended
//! ```
//! So who asks for many takes one place at the device.

use heliostat_abi::name::ObjectId;

/// Which operations the flush under way is for, and which wait for the next one.
#[derive(Default)]
pub struct Flushes {
    current: Vec<ObjectId>,
    waiting: Vec<ObjectId>,
}

impl Flushes {
    /// Whether one is under way.
    pub fn is_under_way(&self) -> bool {
        !self.current.is_empty()
    }

    /// One has begun for an operation.
    pub fn begin(&mut self, job: ObjectId) {
        self.current.push(job);
    }

    /// An operation waits for the next one.
    pub fn wait(&mut self, job: ObjectId) {
        self.waiting.push(job);
    }

    /// One that was cut waits no more. They have no order: all that wait end together.
    pub fn cut(&mut self, job: ObjectId) {
        if let Some(place) = self.waiting.iter().position(|other| *other == job) {
            self.waiting.swap_remove(place);
        }
    }

    /// The one under way has ended: for whom it was. Its memory is for those of the next one.
    pub fn end(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.current)
    }

    /// Those that wait; `last` is memory for who waits from now on.
    pub fn take_waiting(&mut self, last: Vec<ObjectId>) -> Vec<ObjectId> {
        std::mem::replace(&mut self.waiting, last)
    }

    /// One has begun for these.
    pub fn begin_for(&mut self, its: Vec<ObjectId>) {
        self.current = its;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_cut_waits_no_more_and_others_do() {
        let [current, first, last] = [1, 2, 3].map(|index| ObjectId { index, generation: 1 });
        let mut flushes = Flushes::default();
        flushes.begin(current);
        [first, last].into_iter().for_each(|job| flushes.wait(job));
        [current, first, first].into_iter().for_each(|job| flushes.cut(job));
        assert!(flushes.is_under_way());
        assert_eq!(flushes.take_waiting(Vec::new()), [last]);
        assert_eq!(flushes.end(), [current]);
    }
}
