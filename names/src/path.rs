//! Paths of names: `/memory/kv/a`, as parts.

use crate::NameFault;

/// What lies at the root.
pub(crate) const SERVICES: &[&str] =
    &["lock", "memory", "net", "rpc", "sessions", "snapshot", STATUS, "store"];
/// The one that is no folder.
pub(crate) const STATUS: &str = "status";

/// Longest path: a service, a user, a name of any service and what is below it.
const PATH_BYTES_MAX: usize = 512;
/// What stands before a user's number, where names are not the asking user's.
const USER: char = '~';

/// A path, checked: parts that are not empty, nor `.` or `..`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NamePath {
    parts: Vec<String>,
}

impl NamePath {
    /// The root of all names.
    pub fn root() -> Self {
        Self::default()
    }

    /// Reads a path; slashes before, behind and between may be several, as everywhere.
    ///
    /// # Errors
    /// `NotFound` for what no name is.
    pub fn parse(text: &str) -> Result<Self, NameFault> {
        let parts = text.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(Self::root(), |path, part| path.with(part))
    }

    /// The path of something in this folder.
    ///
    /// # Errors
    /// `NotFound` for what no name is.
    pub fn with(&self, part: &str) -> Result<Self, NameFault> {
        let is_part = !part.is_empty() && part != "." && part != ".." && !part.contains('/');
        let mut path = self.clone();
        path.parts.push(part.to_owned());
        let is_short =
            path.parts.iter().map(|part| part.len() + 1).sum::<usize>() <= PATH_BYTES_MAX;
        (is_part && is_short).then_some(path).ok_or(NameFault::NotFound)
    }

    /// The service, and the path within it; `None` for the root.
    pub(crate) fn split(&self) -> Option<(&str, &[String])> {
        self.parts.split_first().map(|(first, rest)| (first.as_str(), rest))
    }
}

impl std::fmt::Display for NamePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}", self.parts.join("/"))
    }
}

/// Whether a text means a name, where it might mean a file of the machine: its first part is a service.
pub fn is_name(text: &str) -> bool {
    let mut parts = text.split('/');
    parts.next() == Some("") && parts.next().is_some_and(|first| SERVICES.contains(&first))
}

/// Whose names a path within a service is about, and what is left of it: `~7/a` are user 7's.
pub(crate) fn whose(path: &[String], own: u32) -> (u32, &[String]) {
    let named = path.first().and_then(|first| first.strip_prefix(USER)?.parse().ok());
    match named {
        Some(user) => (user, &path[1..]),
        None => (own, path),
    }
}

/// The folder of another user's names.
pub(crate) fn folder_of(user: u32) -> String {
    format!("{USER}{user}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_parts_and_no_way_out() {
        let path = NamePath::parse("//memory/kv/a/").unwrap();
        assert_eq!(path.to_string(), "/memory/kv/a");
        assert_eq!(path.split().unwrap(), ("memory", &["kv".to_owned(), "a".to_owned()][..]));
        assert_eq!(NamePath::parse("/memory/../status"), Err(NameFault::NotFound));
        assert_eq!(NamePath::parse(&"/a".repeat(400)), Err(NameFault::NotFound));
        assert_eq!(NamePath::root().to_string(), "/");
    }

    #[test]
    fn what_begins_with_a_service_is_a_name() {
        assert!(is_name("/memory/kv") && is_name("/status"));
        assert!(
            !is_name("/memories")
                && !is_name("memory/kv")
                && !is_name("./net")
                && !is_name("//net")
        );
    }

    #[test]
    fn another_users_names_lie_in_a_folder_of_their_own() {
        let path = [folder_of(7), "a".to_owned()];
        assert_eq!(whose(&path, 1), (7, &path[1..]));
        let own = ["~x".to_owned()];
        assert_eq!(whose(&own, 1), (1, &own[..]));
    }
}
