//! What a restricted session needs for a request: a right on a name, among whose.

use super::name::{MemoryName, OWN_USER};
use super::request::MemoryRequest;
use super::rights::Rights;
use crate::snapshot::region_scope::RegionRight;

impl MemoryRequest {
    /// The right that it takes, on which name of which user; `None` where it names nothing.
    pub fn needs(&self) -> Option<(RegionRight, &MemoryName, u32)> {
        match self {
            Self::Allocate(asked) => {
                asked.name.as_ref().map(|name| (RegionRight::Allocate, name, OWN_USER))
            }
            Self::Name { name, .. } => {
                name.as_ref().map(|name| (RegionRight::Allocate, name, OWN_USER))
            }
            Self::Map { user, name, rights } => {
                let reads = Rights::READ.have(*rights);
                let right = if reads { RegionRight::Read } else { RegionRight::Write };
                Some((right, name, *user))
            }
            // On its own node it is as if that were not said.
            Self::On { request, .. } => request.needs(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::PREFIX;
    use crate::snapshot::region_scope::RegionScope;

    #[test]
    fn a_scope_of_memory_is_said_with_the_prefix_of_names_or_without() {
        let with = RegionScope::parse_memory(&format!("{PREFIX}kv/*:read"));
        assert_eq!(with, RegionScope::parse_memory("kv/*:read"));
        assert!(with.is_ok());
    }
}
