//! What a new area is to be.

use heliostat_abi::store::{Alone, AreaKind, AreaRights, Creation, WayWanted};

use crate::area::named;
use crate::{Area, Store, StoreError};

/// What a new area is to be. Everything about it is granted to whoever makes it, and nothing to other
/// users, unless something else is said.
pub struct NewArea<'a> {
    store: &'a Store,
    name: &'a str,
    bytes: u64,
    kind: AreaKind,
    others: AreaRights,
    rights: AreaRights,
    way: WayWanted,
    alone: Alone,
}

impl<'a> NewArea<'a> {
    pub(crate) fn new(store: &'a Store, name: &'a str, bytes: u64) -> NewArea<'a> {
        let (kind, others, rights) = (AreaKind::Raw, AreaRights::NONE, AreaRights::ALL);
        let (way, alone) = (WayWanted::Any, Alone::No);
        NewArea { store, name, bytes, kind, others, rights, way, alone }
    }

    /// What it is for; bytes, if nothing is said.
    #[must_use]
    pub fn kind(self, kind: AreaKind) -> NewArea<'a> {
        NewArea { kind, ..self }
    }

    /// What other users may.
    #[must_use]
    pub fn others(self, others: AreaRights) -> NewArea<'a> {
        NewArea { others, ..self }
    }

    /// What the handle allows.
    #[must_use]
    pub fn rights(self, rights: AreaRights) -> NewArea<'a> {
        NewArea { rights, ..self }
    }

    /// By which way it is used.
    #[must_use]
    pub fn way(self, way: WayWanted) -> NewArea<'a> {
        NewArea { way, ..self }
    }

    /// No other session may write it as long as this one has it.
    #[must_use]
    pub fn exclusive(self) -> NewArea<'a> {
        NewArea { alone: Alone::Yes, ..self }
    }

    /// Makes the area and opens it.
    ///
    /// # Errors
    /// The name is taken, there is no room, a rule says no, or a limit is reached.
    pub fn make(self) -> Result<Area, StoreError> {
        let NewArea { store, name, bytes, kind, others, rights, way, alone } = self;
        let creation = Creation { name: named(name)?, bytes, kind, others, rights, way, alone };
        Area::create(&store.shared, creation)
    }
}
