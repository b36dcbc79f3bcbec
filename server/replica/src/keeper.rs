//! The records of all regions, kept in memory by one node of the cluster: that with the smallest number.
//!
//! A record is changed only by who knows its revision. While the keeper cannot be reached no placement
//! changes, and regions go on as they are; when it is started anew its records are gone, and nodes that
//! knew it before believe it nothing ([`Keeper::life`] is another).

use std::collections::BTreeMap;

/// Records at once.
pub const RECORDS_MAX: usize = 4096;

/// All records.
#[derive(Default)]
pub struct Keeper {
    records: BTreeMap<String, (u64, Vec<u8>)>,
    last: u64,
}

impl Keeper {
    /// A record and its revision; 0 where there is none.
    pub fn read(&self, key: &str) -> (u64, Vec<u8>) {
        self.records.get(key).cloned().unwrap_or_default()
    }

    /// Writes a record, or deletes it where it is to be empty, if its revision is that. Returns the new
    /// one.
    ///
    /// # Errors
    /// It was another, or there are as many as may be; nothing has changed.
    pub fn write(&mut self, key: &str, expected: u64, record: &[u8]) -> Result<u64, NotKept> {
        let found = self.records.get(key).map_or(0, |it| it.0);
        if found != expected {
            return Err(NotKept::Conflict);
        }
        if found == 0 && self.records.len() >= RECORDS_MAX {
            return Err(NotKept::Full);
        }
        self.last += 1;
        match record.is_empty() {
            true => drop(self.records.remove(key)),
            false => drop(self.records.insert(key.to_owned(), (self.last, record.to_vec()))),
        }
        Ok(self.last)
    }
}

/// Why a record is not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotKept {
    /// It has another revision.
    Conflict,
    /// There are as many as may be.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_changed_by_who_knows_its_revision() {
        let mut keeper = Keeper::default();
        let first = keeper.write("0/kv", 0, b"one").unwrap();
        assert_eq!(keeper.write("0/kv", 0, b"two"), Err(NotKept::Conflict), "there is one");
        let second = keeper.write("0/kv", first, b"two").unwrap();
        assert_eq!(keeper.read("0/kv"), (second, b"two".to_vec()));
        assert_eq!(keeper.write("0/kv", first, b"three"), Err(NotKept::Conflict));
        assert!(keeper.write("0/kv", second, b"").is_ok());
        assert_eq!(keeper.read("0/kv"), (0, Vec::new()));
    }

    #[test]
    fn a_full_keeper_says_so_and_changes_what_it_has() {
        let mut keeper = Keeper::default();
        for number in 0..RECORDS_MAX {
            keeper.write(&format!("0/{number}"), 0, b"one").unwrap();
        }
        assert_eq!(keeper.write("0/more", 0, b"one"), Err(NotKept::Full));
        let (revision, _) = keeper.read("0/7");
        let next = keeper.write("0/7", revision, b"two").unwrap();
        assert!(keeper.write("0/7", next, b"").is_ok());
        assert!(keeper.write("0/more", 0, b"one").is_ok(), "one was removed");
    }
}
