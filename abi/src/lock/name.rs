//! Names of locks.

use std::fmt;

use crate::name_record;
use crate::snapshot::region_name::{check, NameError};
use crate::wire::{Reader, WireError};

/// What every name begins with, where it stands among other services' names.
pub const PREFIX: &str = "/lock/";
/// What stands for the asking session's own user. To the kernel the number means "no user".
pub const OWN_USER: u32 = u32::MAX;
/// What errors call it.
const WHAT: &str = "lock name";

/// The name of a lock, semaphore or barrier: parts of `[A-Za-z0-9._-]`, parted by single slashes. It is
/// one among the names of one user.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct LockName(String);

impl LockName {
    /// Reads a name, with or without `/lock/` before it: no name begins with a slash.
    ///
    /// # Errors
    /// What makes the text no name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(PREFIX).unwrap_or(text);
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The name without `/lock/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name in foreign bytes.
pub(crate) fn decode(r: &mut Reader<'_>) -> Result<LockName, WireError> {
    name_record::decode(r, WHAT, LockName::parse)
}

/// The beginning of names in foreign bytes.
pub(crate) fn decode_text(r: &mut Reader<'_>) -> Result<String, WireError> {
    name_record::decode_text(r, WHAT)
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_form() {
        let name = LockName::parse("/lock/jobs/0").unwrap();
        assert_eq!((name.as_str(), name.to_string()), ("jobs/0", "/lock/jobs/0".into()));
        assert_eq!(LockName::parse("jobs/0"), Ok(name));
        assert_eq!(LockName::parse("a/../b"), Err(NameError::Part));
        assert!(LockName::parse("").is_err());
    }
}
