//! Why a text says no regions, locks, functions or areas.

use std::fmt;

use crate::snapshot::region_name::NameError;
use crate::snapshot::region_scope::RegionRight;

/// Why a text says no regions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScopeError {
    /// There is no right after the name.
    Right(&'static [RegionRight]),
    /// The name is none.
    Name(NameError),
    /// What stands after the right is neither a user's number nor `*`.
    Whose(String),
    /// A region is published under the own user's names only.
    PublishedByOthers,
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right(rights) => {
                let each = rights.iter().map(|right| format!("NAME:{}", right.word()));
                write!(f, "there is no right; write {}", each.collect::<Vec<_>>().join(" or "))
            }
            Self::Name(error) => error.fmt(f),
            Self::Whose(found) => {
                write!(f, "{found:?} is no user's number; write one after the right, or * for all")
            }
            Self::PublishedByOthers => {
                write!(f, "it is made under one's own names; leave the user out")
            }
        }
    }
}

impl std::error::Error for ScopeError {}
