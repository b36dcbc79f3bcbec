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

/// Things by whose they are, and their names.
pub(crate) type Asked<T> = Vec<((u32, String), T)>;

/// A service that lists its things.
pub(crate) trait Lister {
    /// What is listed.
    type Thing;

    /// Asks for the things of a user, or of all, whose names begin so.
    fn ask(&self, user: u32, beginning: &str) -> Result<Asked<Self::Thing>, NameFault>;

    /// What a thing is as a file, to user `own`.
    fn found(&self, own: u32, thing: &Self::Thing) -> Result<Found, NameFault>;

    /// The files of a thing that is a folder; none for one that is a file.
    fn parts(&self, _thing: &Self::Thing) -> &'static [&'static str] {
        &[]
    }

    /// What one of those is.
    fn part(&self, _thing: &Self::Thing, _part: &str) -> Result<Found, NameFault> {
        Err(NameFault::NotFound)
    }
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
        let shelf = self.asked(path)?;
        match shelf.place(path) {
            Ok(Place::Folder(_)) => Ok(Found::Folder),
            Ok(Place::Thing(thing)) if !self.lister.parts(thing).is_empty() => Ok(Found::Folder),
            Ok(Place::Thing(thing)) => self.lister.found(self.own, thing),
            Err(NameFault::NotFound) => self.look_for_part(path),
            Err(error) => Err(error),
        }
    }

    /// Returns a file of the thing whose folder the path goes through; `@` before its name tells it from
    /// a name that is the same.
    fn look_for_part(&self, path: &[String]) -> Result<Found, NameFault> {
        let Some((last, folder)) = path.split_last().filter(|(_, folder)| !folder.is_empty())
        else {
            return Err(NameFault::NotFound);
        };
        let part = last.strip_prefix(ITSELF).unwrap_or(last);
        let shelf = self.asked(folder)?;
        match shelf.place(folder)? {
            Place::Thing(thing) | Place::Folder(Some(thing))
                if self.lister.parts(thing).contains(&part) =>
            {
                self.lister.part(thing, part)
            }
            _ => Err(NameFault::NotFound),
        }
    }

    /// The things whose names begin as a path does.
    fn asked(&self, path: &[String]) -> Result<Shelf<L::Thing>, NameFault> {
        let (user, parts) = whose(path, self.own);
        let named = parts.strip_suffix(&[ITSELF.to_owned()]).unwrap_or(parts).join("/");
        Ok(Shelf::new(self.own, self.lister.ask(user, &named)?.into_iter()))
    }

    /// Returns what lies in a folder.
    pub(crate) fn list(&self, path: &[String]) -> Result<Vec<Entry>, NameFault> {
        let all = self.all.of(Duration::ZERO, || {
            Ok(Shelf::new(self.own, self.lister.ask(ALL_USERS, "")?.into_iter()))
        })?;
        let (thing, mut entries) = match all.place(path)? {
            Place::Thing(thing) => (Some(thing), Vec::new()),
            Place::Folder(thing) => (thing, all.list(path)?),
        };
        let parts = thing.map_or(&[][..], |thing| self.lister.parts(thing));
        if entries.is_empty() && parts.is_empty() && !path.is_empty() {
            return Err(NameFault::NoFolder);
        }
        for entry in &mut entries {
            let place = [path, std::slice::from_ref(&entry.name)].concat();
            let has_parts = |thing: &L::Thing| !self.lister.parts(thing).is_empty();
            entry.is_folder |= matches!(all.place(&place), Ok(Place::Thing(it)) if has_parts(it));
        }
        if !parts.is_empty() {
            // Such a thing is a folder of its own name: it needs no other.
            entries.retain(|entry| entry.name != ITSELF);
        }
        for part in parts {
            let is_taken = entries.iter().any(|entry| entry.name == *part);
            let name = if is_taken { format!("{ITSELF}{part}") } else { (*part).to_owned() };
            entries.push(Entry { name, is_folder: false });
        }
        entries.sort_unstable();
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::text;

    /// Things by name, of user 1; those that begin so have parts.
    struct Fixed(&'static [&'static str]);

    impl Lister for Fixed {
        type Thing = String;

        fn ask(&self, _: u32, beginning: &str) -> Result<Vec<((u32, String), String)>, NameFault> {
            let names = self.0.iter().filter(|name| name.starts_with(beginning));
            Ok(names.map(|name| ((1, (*name).to_owned()), (*name).to_owned())).collect())
        }

        fn found(&self, _: u32, thing: &String) -> Result<Found, NameFault> {
            Ok(text(None, thing.clone()))
        }

        fn parts(&self, thing: &String) -> &'static [&'static str] {
            if thing.starts_with("log") {
                &["data"]
            } else {
                &[]
            }
        }

        fn part(&self, thing: &String, part: &str) -> Result<Found, NameFault> {
            Ok(text(None, format!("{part} of {thing}")))
        }
    }

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    fn length(found: Result<Found, NameFault>) -> u64 {
        match found {
            Ok(Found::File(file)) => file.facts().bytes,
            _ => 0,
        }
    }

    #[test]
    fn a_thing_with_parts_is_a_folder_beside_names_below_it() {
        let names = ListedNames::new(1, Fixed(&["a", "log", "log/data"]));
        let listed = |text: &str| -> Vec<(String, bool)> {
            let path = if text.is_empty() { Vec::new() } else { path(text) };
            let entries = names.list(&path).unwrap();
            entries.into_iter().map(|entry| (entry.name, entry.is_folder)).collect()
        };
        assert_eq!(listed(""), [("a".to_owned(), false), ("log".to_owned(), true)]);
        assert_eq!(listed("log"), [("@data".to_owned(), false), ("data".to_owned(), true)]);
        assert_eq!(listed("log/data"), [("data".to_owned(), false)]);
        assert_eq!(names.list(&path("a")), Err(NameFault::NoFolder));
        assert!(matches!(names.look(&path("log")), Ok(Found::Folder)));
        assert_eq!(length(names.look(&path("log/@data"))), "data of log".len() as u64);
        assert_eq!(length(names.look(&path("log/data/data"))), "data of log/data".len() as u64);
        assert_eq!(length(names.look(&path("a"))), 1);
        assert!(matches!(names.look(&path("a/data")), Err(NameFault::NotFound)));
    }
}
