//! A service whose names are one flat list, which can be asked for by their beginning.

use std::time::Duration;

use crate::kept::Kept;
use crate::path::whose;
use crate::shelf::{Place, Shelf, ITSELF};
use crate::{Entry, Found, NameFault};

/// What stands for all users whose names may be seen; every service's number for that is the same.
const ALL_USERS: u32 = heliostat_abi::snapshot::region::OWN_USER;
/// How old a list may be that says that something is a folder: one more or less harms nobody.
const FOLDERS: Duration = Duration::from_secs(1);

/// A service that lists its things.
pub(crate) trait Lister {
    /// What is listed.
    type Thing;

    /// Asks for the things of a user, or of all, whose names begin so.
    fn ask(
        &self,
        user: u32,
        beginning: &str,
    ) -> Result<Vec<((u32, String), Self::Thing)>, NameFault>;

    /// What a thing is as a file, to user `own`.
    fn found(&self, own: u32, thing: &Self::Thing) -> Result<Found, NameFault>;
}

/// Its names, as folders.
pub(crate) struct ListedNames<L: Lister> {
    own: u32,
    lister: L,
    all: Kept<Shelf<L::Thing>>,
}

impl<L: Lister> ListedNames<L> {
    /// The names as user `own` sees them.
    pub(crate) fn new(own: u32, lister: L) -> Self {
        Self { own, lister, all: Kept::default() }
    }

    /// Returns what a path stands for. What it is, is asked for now; only that it is a folder and
    /// nothing else may be remembered.
    pub(crate) fn look(&self, path: &[String]) -> Result<Found, NameFault> {
        let known = self.all.younger(FOLDERS);
        let is_folder = |all: &Shelf<_>| matches!(all.place(path), Ok(Place::Folder(None)));
        if path.is_empty() || known.is_some_and(|all| is_folder(&all)) {
            return Ok(Found::Folder);
        }
        let (user, parts) = whose(path, self.own);
        let named = parts.strip_suffix(&[ITSELF.to_owned()]).unwrap_or(parts).join("/");
        let shelf = Shelf::new(self.own, self.lister.ask(user, &named)?.into_iter());
        match shelf.place(path)? {
            Place::Folder(_) => Ok(Found::Folder),
            Place::Thing(thing) => self.lister.found(self.own, thing),
        }
    }

    /// Returns what lies in a folder.
    pub(crate) fn list(&self, path: &[String]) -> Result<Vec<Entry>, NameFault> {
        let all = self.all.of(Duration::ZERO, || {
            Ok(Shelf::new(self.own, self.lister.ask(ALL_USERS, "")?.into_iter()))
        })?;
        all.list(path)
    }
}
