//! Where a log lies.

use std::fmt;
use std::path::{Path, PathBuf};

/// What the names of areas begin with.
const STORE: &str = "/store/";

/// Where a log lies: a file (or a disk) that this process opens by itself, or an area of a store,
/// which the control plane grants by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A file or a disk; nobody is asked but the kernel.
    File(PathBuf),
    /// An area by its name, without the `/store/` that it is written with.
    Area(String),
}

/// `/store/NAME` is an area, anything else a file. Who has a file in a folder of that name makes the
/// place of a `Path`.
impl From<&str> for Place {
    fn from(text: &str) -> Place {
        match text.strip_prefix(STORE) {
            Some(name) => Place::Area(name.to_owned()),
            None => Place::File(text.into()),
        }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Place {
        Place::File(path.to_owned())
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Place {
        Place::File(path)
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Area(name) => write!(f, "{STORE}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_an_area_only_where_it_begins_so() {
        assert_eq!(Place::from("/store/orders"), Place::Area("orders".into()));
        assert_eq!(Place::from("store/orders"), Place::File("store/orders".into()));
        assert_eq!(Place::from(Path::new("/store/a")), Place::File("/store/a".into()));
        assert_eq!(Place::from("/store/orders").to_string(), "/store/orders");
    }
}
