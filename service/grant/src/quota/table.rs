//! A table of objects, each counted against the share of whoever it is for.

use heliostat_abi::code::Side;
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;

use super::{Exceeded, Holder, Quota, Shares};

/// Objects by id, as in [`Table`], with a holder each.
#[derive(Clone, Debug)]
pub struct QuotaTable<T> {
    table: Table<(Holder, T)>,
    quota: Quota,
}

impl<T> QuotaTable<T> {
    /// An empty table of at most `places` objects, whatever the shares say.
    pub fn new(places: usize, shares: Shares) -> Self {
        let shares = within(places, shares);
        Self { table: Table::new(places), quota: Quota::new(shares) }
    }

    /// New limits for what comes from now on; what is there stays.
    pub fn set_shares(&mut self, shares: Shares) {
        self.quota.set_shares(within(self.table.limit(), shares));
    }

    /// Takes a value in for a holder and names it.
    pub fn insert(&mut self, holder: Holder, value: T) -> Result<ObjectId, Exceeded> {
        self.quota.take(holder, 1)?;
        self.table.insert((holder, value)).map_err(|full| {
            self.quota.give_back(holder, 1);
            Exceeded { side: Side::Node, limit: full.limit as u64 }
        })
    }

    /// Takes a value out; its holder has one less.
    pub fn remove(&mut self, id: ObjectId) -> Option<T> {
        let (holder, value) = self.table.remove(id)?;
        self.quota.give_back(holder, 1);
        Some(value)
    }

    /// Counts an object against another holder's share from now on.
    pub fn hand_over(&mut self, id: ObjectId, to: Holder) -> Result<(), Exceeded> {
        let Some((holder, _)) = self.table.get_mut(id) else { return Ok(()) };
        self.quota.give_back(*holder, 1);
        match self.quota.take(to, 1) {
            Ok(()) => *holder = to,
            Err(exceeded) => {
                self.quota.take_anyway(*holder, 1);
                return Err(exceeded);
            }
        }
        Ok(())
    }

    /// Whose share an object counts against.
    pub fn holder(&self, id: ObjectId) -> Option<Holder> {
        self.table.get(id).map(|(holder, _)| *holder)
    }

    /// The object with this id.
    pub fn get(&self, id: ObjectId) -> Option<&T> {
        self.table.get(id).map(|(_, value)| value)
    }

    /// The object with this id, to change.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut T> {
        self.table.get_mut(id).map(|(_, value)| value)
    }

    /// Every object, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &T)> {
        self.table.iter().map(|(id, (_, value))| (id, value))
    }

    /// The object at an index, if one is there.
    pub fn id_at(&self, index: u32) -> Option<ObjectId> {
        self.table.id_at(index)
    }

    /// Indices that have been given out so far.
    pub fn places(&self) -> usize {
        self.table.places()
    }

    /// Objects in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True when nothing is in the table.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Who has how many.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }
}

fn within(places: usize, shares: Shares) -> Shares {
    Shares { all: shares.all.min(places as u64), ..shares }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { all: 9, reserve: 0, user: 2, trusted: 9, sealed: 1 };

    #[test]
    fn what_leaves_the_table_no_longer_counts() {
        let mut table = QuotaTable::new(9, SHARES);
        let one = table.insert(Holder::user(1), 'a').unwrap();
        table.insert(Holder::user(1), 'b').unwrap();
        let full = Exceeded { side: Side::User, limit: 2 };
        assert_eq!(table.insert(Holder::user(1), 'c'), Err(full));
        assert_eq!(table.remove(one), Some('a'));
        assert_eq!(table.remove(one), None);
        assert!(table.insert(Holder::user(1), 'c').is_ok());
    }

    #[test]
    fn a_table_has_no_more_places_than_there_are() {
        let mut table = QuotaTable::new(1, SHARES);
        table.insert(Holder::user(1), 'a').unwrap();
        let full = Exceeded { side: Side::Node, limit: 1 };
        assert_eq!(table.insert(Holder::trusted(0), 'b'), Err(full));
        assert_eq!(table.quota().used_by_all(), 1);
    }

    #[test]
    fn what_is_handed_over_counts_once_and_stays_where_it_does_not_fit() {
        let mut table = QuotaTable::new(9, SHARES);
        let sealed = Holder::user(1).sealed_by(7);
        let one = table.insert(Holder::user(1), 'a').unwrap();
        let two = table.insert(Holder::user(1), 'b').unwrap();
        assert_eq!(table.hand_over(one, sealed), Ok(()));
        let full = Exceeded { side: Side::SealedProgram, limit: 1 };
        assert_eq!(table.hand_over(two, sealed), Err(full));
        assert_eq!((table.holder(one), table.holder(two)), (Some(sealed), Some(Holder::user(1))));
        assert_eq!(table.quota().used(sealed).user, 2);
    }
}
