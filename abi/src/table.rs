//! A bounded table that hands out `ObjectId`s: the one place where generations are counted.
//!
//! Both the control plane and every service name their objects by index and generation, and the
//! node page has one word per index, so all of them must count alike: an index is used again
//! only after every other free index was (oldest first), and its generation moves on each time.
//! A stale id therefore never matches again before a billion reuses of the same place.

use std::collections::VecDeque;

use crate::name::ObjectId;

/// Generations are 30 bits wide, as in the words of the node page; zero is never given out, so
/// that a zeroed page names no object.
const GENERATION_MASK: u32 = 0x3fff_ffff;

/// Every place is taken; the value says how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableFull {
    /// Places in the table.
    pub limit: usize,
}

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "all {} places of the table are taken", self.limit)
    }
}

impl std::error::Error for TableFull {}

#[derive(Clone, Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Objects by id; never more than `limit` at once.
#[derive(Clone, Debug)]
pub struct Table<T> {
    places: Vec<Place<T>>,
    free: VecDeque<u32>,
    limit: usize,
    /// As many free places are enough to take one of them again.
    spare: usize,
}

/// Free places that a lean table keeps: an index is not used again before so many others were freed.
const SPARE: usize = 1024;

impl<T> Table<T> {
    /// An empty table of at most `limit` objects.
    pub fn new(limit: usize) -> Self {
        Self::with(limit, limit)
    }

    /// An empty table of at most `limit` objects that takes places again before it has that many: it
    /// is as long as it ever was full, and little more.
    pub fn lean(limit: usize) -> Self {
        Self::with(limit, SPARE.min(limit))
    }

    fn with(limit: usize, spare: usize) -> Self {
        let limit = limit.min(u32::MAX as usize);
        Self { places: Vec::new(), free: VecDeque::new(), limit, spare }
    }

    /// Takes a value in and names it.
    pub fn insert(&mut self, value: T) -> Result<ObjectId, TableFull> {
        if self.places.len() < self.limit && self.free.len() < self.spare {
            self.places.push(Place { generation: 1, value: Some(value) });
            return Ok(ObjectId { index: self.places.len() as u32 - 1, generation: 1 });
        }
        let index = self.free.pop_front().ok_or(TableFull { limit: self.limit })?;
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        Ok(ObjectId { index, generation: place.generation })
    }

    /// Takes a value out; its id never matches again, and its place gets the next generation.
    pub fn remove(&mut self, id: ObjectId) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = next_generation(place.generation);
        self.free.push_back(id.index);
        Some(value)
    }

    /// The object with this id.
    pub fn get(&self, id: ObjectId) -> Option<&T> {
        let place = self.places.get(id.index as usize)?;
        place.value.as_ref().filter(|_| place.generation == id.generation)
    }

    /// The object with this id, to change.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut T> {
        let place = self.places.get_mut(id.index as usize)?;
        let current = place.generation == id.generation;
        place.value.as_mut().filter(|_| current)
    }

    /// Id of the object that now has this index.
    pub fn id_at(&self, index: u32) -> Option<ObjectId> {
        let place = self.places.get(index as usize)?;
        place.value.as_ref().map(|_| ObjectId { index, generation: place.generation })
    }

    /// Every object, in order of index, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ObjectId, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, place)| {
            let id = ObjectId { index: index as u32, generation: place.generation };
            place.value.as_mut().map(|value| (id, value))
        })
    }

    /// Every object, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let id = ObjectId { index: index as u32, generation: place.generation };
            place.value.as_ref().map(|value| (id, value))
        })
    }

    /// Objects in the table.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// True when nothing is in the table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Places, those that are free among them.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Most objects there may be at once.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

/// The generation after this one.
pub const fn next_generation(generation: u32) -> u32 {
    match (generation + 1) & GENERATION_MASK {
        0 => 1,
        next => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_id_never_matches_again() {
        let mut table = Table::new(1);
        let old = table.insert('a').unwrap();
        assert_eq!(table.remove(old), Some('a'));
        let new = table.insert('b').unwrap();
        assert_eq!(table.remove(old), None);
        assert_eq!((old.index, table.get(old)), (new.index, None));
        assert_eq!(table.get(new), Some(&'b'));
    }

    #[test]
    fn a_full_table_names_its_limit() {
        let mut table = Table::new(2);
        table.insert(1).unwrap();
        table.insert(2).unwrap();
        assert_eq!(table.insert(3), Err(TableFull { limit: 2 }));
    }

    #[test]
    fn the_place_free_for_longest_is_used_first() {
        let mut table = Table::new(3);
        let ids: Vec<_> = (0..3).map(|value| table.insert(value).unwrap()).collect();
        table.remove(ids[2]);
        table.remove(ids[0]);
        assert_eq!(table.insert(9).unwrap().index, 2);
        assert_eq!(table.insert(9).unwrap().index, 0);
    }

    #[test]
    fn a_lean_table_is_little_longer_than_it_was_full() {
        let mut table = Table::lean(1 << 20);
        let mut ids = std::collections::HashSet::new();
        for value in 0..10_000 {
            let id = table.insert(value).unwrap();
            assert!(ids.insert(id), "{id} was given out twice");
            assert_eq!(table.remove(id), Some(value));
        }
        assert_eq!((table.places(), table.len()), (SPARE, 0));
        let mut small = Table::lean(1);
        let first = small.insert('a').unwrap();
        assert_eq!(small.insert('b'), Err(TableFull { limit: 1 }));
        small.remove(first);
        assert_eq!(small.insert('b').map(|id| id.index), Ok(0));
    }

    #[test]
    fn generations_skip_zero_when_they_wrap() {
        assert_eq!(next_generation(GENERATION_MASK), 1);
        assert_eq!(next_generation(1), 2);
    }
}
