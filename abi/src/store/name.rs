//! Names of areas.

use std::fmt;

use crate::name_record;
pub(crate) use crate::name_record::encode;
use crate::snapshot::region_name::{check, NameError};
use crate::wire::{Reader, WireError};

/// What every name begins with, where it stands among other services' names.
pub const PREFIX: &str = "/store/";
/// What stands for the asking session's own user. To the kernel the number means "no user".
pub const OWN_USER: u32 = u32::MAX;
/// What errors call it.
const WHAT: &str = "area name";

/// The name of an area: parts of `[A-Za-z0-9._-]`, parted by single slashes. It is one among the names
/// of one user.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct AreaName(String);

impl AreaName {
    /// Reads a name, with or without `/store/` before it: no name begins with a slash.
    ///
    /// # Errors
    /// What makes the text no name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(PREFIX).unwrap_or(text);
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The name without `/store/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AreaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

/// The name in foreign bytes.
pub(crate) fn decode(r: &mut Reader<'_>) -> Result<AreaName, WireError> {
    name_record::decode(r, WHAT, AreaName::parse)
}

/// The beginning of names in foreign bytes.
pub(crate) fn decode_text(r: &mut Reader<'_>) -> Result<String, WireError> {
    name_record::decode_text(r, WHAT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::region_name::NAME_BYTES;

    #[test]
    fn a_name_has_one_form() {
        let name = AreaName::parse("/store/redis/log.0").unwrap();
        assert_eq!((name.as_str(), name.to_string()), ("redis/log.0", "/store/redis/log.0".into()));
        assert_eq!(AreaName::parse("redis/log.0"), Ok(name));
        assert_eq!(AreaName::parse("a/../b"), Err(NameError::Part));
        assert_eq!(AreaName::parse(&"x".repeat(NAME_BYTES + 1)), Err(NameError::Length(65)));
    }
}
