//! A table of things that are asked for by number, where a number is never taken for a later one.

use crate::frame::CallId;

/// Places with generations, up to a limit.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    limit: usize,
    /// Generations begin with this one.
    first: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    held: Option<T>,
}

impl<T> Slots<T> {
    /// An empty table with `limit` places at most; they are made when they are needed.
    pub fn new(limit: usize) -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new(), limit: limit.min(u32::MAX as usize), first: 0 }
    }

    /// Generations of places that are made from now on begin with another number.
    pub fn begin_with(&mut self, first: u32) {
        self.first = first;
    }

    /// Puts something in, unless the table is full.
    pub fn insert(&mut self, held: T) -> Option<CallId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.limit => {
                self.slots.push(Slot { generation: self.first, held: None });
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        slot.held = Some(held);
        Some(CallId { index, generation: slot.generation })
    }

    /// What has this number now.
    pub fn find(&self, id: CallId) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        slot.held.as_ref().filter(|_| slot.generation == id.generation)
    }

    /// As [`Slots::find`], to be changed.
    pub fn find_mut(&mut self, id: CallId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        let is_same = slot.generation == id.generation;
        slot.held.as_mut().filter(|_| is_same)
    }

    /// Takes out what has this number; the number is void from now on.
    pub fn remove(&mut self, id: CallId) -> Option<T> {
        self.find(id)?;
        let slot = &mut self.slots[id.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        slot.held.take()
    }

    /// All numbers that are in use and fit, in the order of their places.
    pub fn matching(&self, fits: impl Fn(&T) -> bool) -> Vec<CallId> {
        let with_index = self.slots.iter().enumerate();
        with_index
            .filter(|(_, slot)| slot.held.as_ref().is_some_and(&fits))
            .map(|(index, slot)| CallId { index: index as u32, generation: slot.generation })
            .collect()
    }

    /// How many are in use.
    pub fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_void_after_its_removal_though_its_place_is_used_again() {
        let mut slots = Slots::new(1);
        let first = slots.insert('a').expect("room");
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b').expect("room");
        assert_eq!(first.index, second.index);
        assert_eq!(slots.find(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.find_mut(second), Some(&mut 'b'));
    }

    #[test]
    fn a_full_table_takes_nothing_until_a_removal() {
        let mut slots = Slots::new(2);
        let first = slots.insert(1).expect("room");
        slots.insert(2).expect("room");
        assert_eq!(slots.insert(3), None);
        assert_eq!(slots.used(), 2);
        slots.remove(first);
        assert!(slots.insert(3).is_some());
    }

    #[test]
    fn numbers_that_never_were_are_void() {
        let slots = Slots::<u8>::new(4);
        assert_eq!(slots.find(CallId { index: 0, generation: 0 }), None);
        assert_eq!(slots.find(CallId { index: u32::MAX, generation: 1 }), None);
    }
}
