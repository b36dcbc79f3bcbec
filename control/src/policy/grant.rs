//! One granted path, as a person writes it: `/srv/data:rw`, `/usr:ro`, `data`.

use std::fmt;
use std::path::PathBuf;

use super::Access;

/// A file or folder with everything below it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PathGrant {
    /// Host path. Relative until [`Policy::anchor`](super::Policy::anchor); whoever opens it
    /// resolves symbolic links once and puts the resolved path here.
    pub path: PathBuf,
    /// What may be done below it.
    pub access: Access,
}

/// Why a text is no grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrantError {
    /// There is no path.
    Empty,
    /// What stands behind the last colon looks like an access and is none.
    Access {
        /// What stands there.
        found: String,
    },
    /// A path cannot hold a byte 0.
    Zero,
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there is no path; write PATH:ro or PATH:rw"),
            Self::Access { found } => write!(
                f,
                "{found:?} is no access; write :ro to read, :rw to read and write, or :stat to see \
                 attributes only (a path that ends so gets :ro after it)"
            ),
            Self::Zero => write!(f, "a path cannot hold a byte 0"),
        }
    }
}

impl std::error::Error for GrantError {}

/// Accesses that other tools know: whoever writes one of them means an access and not a name.
const FOREIGN: [&str; 9] = ["r", "w", "x", "rx", "wr", "rwx", "RO", "RW", ""];

impl PathGrant {
    /// Reads `PATH`, `PATH:stat`, `PATH:ro` or `PATH:rw`; without an access it is read-only. A path that itself
    /// ends in `:ro` or the like needs an access behind it.
    pub fn parse(text: &str) -> Result<Self, GrantError> {
        let (path, access) = match text.rsplit_once(':') {
            Some((path, "stat")) => (path, Access::Stat),
            Some((path, "ro")) => (path, Access::ReadOnly),
            Some((path, "rw")) => (path, Access::ReadWrite),
            Some((_, found)) if FOREIGN.contains(&found) => {
                return Err(GrantError::Access { found: found.to_owned() });
            }
            _ => (text, Access::ReadOnly),
        };
        match path {
            "" => Err(GrantError::Empty),
            path if path.contains('\0') => Err(GrantError::Zero),
            path => Ok(Self { path: PathBuf::from(path), access }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Access) {
        let grant = PathGrant::parse(text).unwrap();
        (grant.path.to_string_lossy().into_owned(), grant.access)
    }

    #[test]
    fn the_access_stands_behind_the_last_colon_and_reading_is_the_default() {
        assert_eq!(parsed("/usr"), ("/usr".into(), Access::ReadOnly));
        assert_eq!(parsed("/usr:ro"), ("/usr".into(), Access::ReadOnly));
        assert_eq!(parsed("data:rw"), ("data".into(), Access::ReadWrite));
        assert_eq!(parsed("data:stat"), ("data".into(), Access::Stat));
        assert_eq!(parsed("/a:b"), ("/a:b".into(), Access::ReadOnly));
        assert_eq!(parsed("/a:rw:ro"), ("/a:rw".into(), Access::ReadOnly));
    }

    #[test]
    fn what_is_no_grant_says_what_to_write() {
        assert_eq!(PathGrant::parse(":rw"), Err(GrantError::Empty));
        assert_eq!(PathGrant::parse(""), Err(GrantError::Empty));
        let said = PathGrant::parse("/a:rwx").unwrap_err().to_string();
        assert!(said.starts_with("\"rwx\" is no access; write :ro"), "{said}");
        assert_eq!(PathGrant::parse("/a\0"), Err(GrantError::Zero));
    }
}
