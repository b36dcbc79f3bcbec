//! Names of areas.

use std::fmt;

use crate::snapshot::region_name::{check, NameError};

/// What every name begins with, where it stands among other services' names.
pub const PREFIX: &str = "/store/";

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
