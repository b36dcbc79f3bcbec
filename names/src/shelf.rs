//! Names of one service as folders, made from the flat list that services give.
//!
//! A name is parts parted by slashes, and may be the beginning of others: then it is a folder in which
//! the thing itself lies as `@`, a character that no name has.
//!
//! ```text
//! kv, kv/a, jobs      /kv/@   /kv/a   /jobs        of the asking user
//! user 7: kv          /~7/kv                       of others
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::path::{folder_of, whose};
use crate::{Entry, NameFault};

/// The thing itself, in a folder of its name.
pub(crate) const ITSELF: &str = "@";

/// Things with names of several users.
pub(crate) struct Shelf<T> {
    own: u32,
    things: BTreeMap<(u32, String), T>,
}

/// What a path within a service stands for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Place<'a, T> {
    /// Names lie below it; and a thing of this very name, if there is one.
    Folder(Option<&'a T>),
    /// A thing.
    Thing(&'a T),
}

impl<T> Shelf<T> {
    /// Things by user and name; the paths of user `own` begin without a user.
    pub(crate) fn new(own: u32, things: impl Iterator<Item = ((u32, String), T)>) -> Self {
        Self { own, things: things.collect() }
    }

    /// Returns what a path stands for.
    pub(crate) fn place(&self, path: &[String]) -> Result<Place<'_, T>, NameFault> {
        let (user, parts) = whose(path, self.own);
        if parts.is_empty() {
            let is_there = path.is_empty() || self.has_below(user, "");
            return is_there.then_some(Place::Folder(None)).ok_or(NameFault::NotFound);
        }
        if let Some((ITSELF, folder)) = parts.split_last().map(|(last, rest)| (last.as_str(), rest))
        {
            return self.thing(user, folder).map(Place::Thing).ok_or(NameFault::NotFound);
        }
        let thing = self.thing(user, parts);
        match (self.has_below(user, &format!("{}/", parts.join("/"))), thing) {
            (true, thing) => Ok(Place::Folder(thing)),
            (false, Some(thing)) => Ok(Place::Thing(thing)),
            (false, None) => Err(NameFault::NotFound),
        }
    }

    /// Returns what lies in the folder that a path stands for: names without things count as folders.
    pub(crate) fn list(&self, path: &[String]) -> Result<Vec<Entry>, NameFault> {
        let Place::Folder(itself) = self.place(path)? else { return Err(NameFault::NoFolder) };
        let (user, parts) = whose(path, self.own);
        let mut found = BTreeMap::new();
        if itself.is_some() {
            found.insert(ITSELF.to_owned(), false);
        }
        let beginning = parts.iter().fold(String::new(), |all, part| all + part + "/");
        for name in self.below(user, &beginning) {
            match name[beginning.len()..].split_once('/') {
                Some((folder, _)) => found.insert(folder.to_owned(), true),
                None => {
                    found.insert(name[beginning.len()..].to_owned(), self.is_folder(user, name))
                }
            };
        }
        if path.is_empty() {
            let users: BTreeSet<u32> = self.things.keys().map(|(user, _)| *user).collect();
            let others = users.into_iter().filter(|user| *user != self.own);
            found.extend(others.map(|user| (folder_of(user), true)));
        }
        Ok(found.into_iter().map(|(name, is_folder)| Entry { name, is_folder }).collect())
    }

    /// The thing of a name.
    fn thing(&self, user: u32, parts: &[String]) -> Option<&T> {
        self.things.get(&(user, parts.join("/")))
    }

    fn is_folder(&self, user: u32, name: &str) -> bool {
        self.has_below(user, &format!("{name}/"))
    }

    fn has_below(&self, user: u32, beginning: &str) -> bool {
        self.below(user, beginning).next().is_some()
    }

    fn below<'a>(&'a self, user: u32, beginning: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.things.range((user, beginning.to_owned())..);
        let of_user = from.map(|((of, name), _)| (*of, name.as_str()));
        of_user
            .take_while(move |(of, name)| *of == user && name.starts_with(beginning))
            .map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn shelf() -> Shelf<u8> {
        let named = |user, name: &str, what| ((user, name.to_owned()), what);
        Shelf::new(
            1,
            [named(1, "kv", 1), named(1, "kv/a", 2), named(1, "kv.x", 3), named(7, "kv", 4)]
                .into_iter(),
        )
    }

    #[test]
    fn a_name_that_begins_others_is_a_folder_and_lies_in_it() {
        let shelf = shelf();
        assert_eq!(shelf.place(&path("kv")), Ok(Place::Folder(Some(&1))));
        assert_eq!(shelf.place(&path("kv/@")), Ok(Place::Thing(&1)));
        assert_eq!(shelf.place(&path("kv/a")), Ok(Place::Thing(&2)));
        assert_eq!(shelf.place(&path("kv.x/@")), Ok(Place::Thing(&3)));
        assert_eq!(shelf.place(&path("k")), Err(NameFault::NotFound));
        assert_eq!(shelf.place(&path("kv/a/b")), Err(NameFault::NotFound));
    }

    #[test]
    fn other_users_names_lie_in_folders_of_theirs() {
        let shelf = shelf();
        assert_eq!(shelf.place(&path("~7/kv")), Ok(Place::Thing(&4)));
        assert_eq!(shelf.place(&path("~7")), Ok(Place::Folder(None)));
        assert_eq!(shelf.place(&path("~8")), Err(NameFault::NotFound));
        assert_eq!(shelf.place(&path("~1/kv.x")), Ok(Place::Thing(&3)));
    }

    #[test]
    fn a_folder_lists_each_name_once() {
        let entry = |name: &str, is_folder| Entry { name: name.to_owned(), is_folder };
        let shelf = shelf();
        assert_eq!(
            shelf.list(&[]).unwrap(),
            [entry("kv", true), entry("kv.x", false), entry("~7", true)]
        );
        assert_eq!(shelf.list(&path("kv")).unwrap(), [entry("@", false), entry("a", false)]);
        assert_eq!(shelf.list(&path("kv.x")), Err(NameFault::NoFolder));
    }
}
