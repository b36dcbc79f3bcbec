//! Where a log lies.

use std::fmt;
use std::path::{Path, PathBuf};

use heliostat_backend_block::Device;
use heliostat_backend_log::Area;

use crate::error::{OpenError, Why};
use crate::make;

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

impl Place {
    /// The device that the log of this place lies on, for one writer, and where on it.
    pub(crate) fn device(&self) -> Result<(Box<dyn Device>, Area), OpenError> {
        match self {
            Place::File(path) => make::whole(path).map_err(|error| OpenError::new(self, error)),
            Place::Area(_) => Err(no_store(self)),
        }
    }
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

/// Areas are not reached from here yet.
pub(crate) fn no_store(place: &Place) -> OpenError {
    const EOPNOTSUPP: i32 = 95;
    OpenError::new(place, Why::System { call: "the opening of an area", errno: EOPNOTSUPP })
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
