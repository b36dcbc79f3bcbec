//! What is within reach of a session that is handed to somebody who is not trusted.
//!
//! Put together by whoever has the session, then closed for good. A session that was never closed is
//! not confined: the rules alone hold for it.

use std::fmt::Debug;
use std::sync::Arc;

use heliostat_abi::name::NetAddress;
use heliostat_abi::session::restriction::Destination;
use heliostat_abi::socket::limits::CONFINED_NAMES_MAX;
use heliostat_abi::socket::Access;

/// A folder, wherever it lies now.
pub trait Place: Debug + Send + Sync {
    /// Its absolute path, as the kernel names it now; none where it was removed.
    fn path(&self) -> Option<String>;
}

/// A folder whose files stay within reach.
#[derive(Clone, Debug)]
pub struct Folder {
    /// It. What its path is called later does not matter, and who gets that path is not it.
    pub place: Arc<dyn Place>,
    /// They may be read.
    pub reads: bool,
    /// They may be written, made and removed.
    pub writes: bool,
}

/// What is wanted of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// To read.
    Read,
    /// To write, make or remove.
    Write,
}

/// There are as many folders and addresses as there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

/// What stays within reach.
#[derive(Clone, Debug, Default)]
pub struct Confined {
    addresses: Vec<(Access, Destination)>,
    folders: Vec<Folder>,
    is_closed: bool,
}

impl Confined {
    /// Whether nothing widens it any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes it.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds addresses.
    ///
    /// # Errors
    /// There are as many names as there may be.
    pub fn add_address(&mut self, access: Access, to: Destination) -> Result<(), TooMany> {
        self.check_room()?;
        self.addresses.push((access, to));
        Ok(())
    }

    /// Adds a folder.
    ///
    /// # Errors
    /// As `add_address`.
    pub fn add_folder(&mut self, folder: Folder) -> Result<(), TooMany> {
        self.check_room()?;
        self.folders.push(folder);
        Ok(())
    }

    fn check_room(&self) -> Result<(), TooMany> {
        let names = self.addresses.len() + self.folders.len();
        (names < CONFINED_NAMES_MAX).then_some(()).ok_or(TooMany)
    }

    /// Whether an address is within reach.
    pub fn reaches(&self, access: Access, address: NetAddress) -> bool {
        let mut those = self.addresses.iter().filter(|(of, _)| *of == access);
        !self.is_closed || those.any(|(_, destination)| destination.has(address))
    }

    /// Whether a name is within reach: one of the folders, or something in it. `path` is the one that
    /// the kernel knows, without links and dots.
    pub fn names(&self, right: Within, path: &str) -> bool {
        let has = |folder: &&Folder| match right {
            Within::Read => folder.reads,
            Within::Write => folder.writes,
        };
        let is_in = |folder: &Folder| {
            let place = folder.place.path();
            let rest = place.as_ref().and_then(|it| path.strip_prefix(it.trim_end_matches('/')));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.is_closed || self.folders.iter().filter(has).any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn to(ports: (u16, u16)) -> Destination {
        Destination { host: Some([127, 0, 0, 1].into()), ports }
    }

    /// A folder that may be moved, and removed.
    #[derive(Debug)]
    struct Here(Mutex<Option<&'static str>>);

    impl Place for Here {
        fn path(&self) -> Option<String> {
            self.0.lock().unwrap().map(str::to_owned)
        }
    }

    fn folder(path: &'static str, writes: bool) -> (Arc<Here>, Folder) {
        let here = Arc::new(Here(Mutex::new(Some(path))));
        (here.clone(), Folder { place: here, reads: true, writes })
    }

    fn address(text: &str) -> NetAddress {
        NetAddress::new(text.parse().unwrap())
    }

    #[test]
    fn everything_is_within_reach_until_it_is_closed_and_then_what_was_named() {
        let mut confined = Confined::default();
        assert!(confined.reaches(Access::Listen, address("1.2.3.4:5")));
        assert!(confined.names(Within::Write, "/etc/passwd"));
        confined.add_address(Access::Connect, to((80, 81))).unwrap();
        confined.add_folder(folder("/srv/data/", false).1).unwrap();
        confined.close();
        assert!(confined.reaches(Access::Connect, address("127.0.0.1:81")));
        assert!(!confined.reaches(Access::Connect, address("127.0.0.1:82")));
        assert!(!confined.reaches(Access::Listen, address("127.0.0.1:81")));
        for (path, is_in) in [
            ("/srv/data", true),
            ("/srv/data/a/b", true),
            ("/srv/database", false),
            ("/srv", false),
            ("/", false),
        ] {
            assert_eq!(confined.names(Within::Read, path), is_in, "{path}");
            assert!(!confined.names(Within::Write, path), "{path}");
        }
    }

    #[test]
    fn a_folder_is_itself_wherever_it_lies_and_no_other_at_its_path() {
        let mut confined = Confined::default();
        let (here, folder) = folder("/srv/data", false);
        confined.add_folder(folder).unwrap();
        confined.close();
        *here.0.lock().unwrap() = Some("/srv/moved");
        assert!(confined.names(Within::Read, "/srv/moved/a"));
        assert!(!confined.names(Within::Read, "/srv/data/a"));
        *here.0.lock().unwrap() = None;
        assert!(["/srv/moved", "/srv/data", "/"]
            .iter()
            .all(|it| !confined.names(Within::Read, it)));
    }

    #[test]
    fn the_root_folder_has_every_name() {
        let mut confined = Confined::default();
        confined.add_folder(folder("/", true).1).unwrap();
        confined.close();
        assert!(confined.names(Within::Write, "/any/where") && confined.names(Within::Read, "/"));
    }

    #[test]
    fn there_are_only_so_many_names() {
        let mut confined = Confined::default();
        for _ in 0..CONFINED_NAMES_MAX {
            confined.add_address(Access::Connect, to((1, 1))).unwrap();
        }
        assert_eq!(confined.add_address(Access::Connect, to((1, 1))), Err(TooMany));
        assert_eq!(confined.add_folder(folder("/srv", true).1), Err(TooMany));
    }
}
