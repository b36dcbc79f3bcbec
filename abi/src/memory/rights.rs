//! What a handle allows: a set of bits.

use std::fmt;

use crate::wire::{Reader, WireError};

/// What one may do with a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Rights(u32);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);
    /// Read it.
    pub const READ: Rights = Rights(1);
    /// Write it.
    pub const WRITE: Rights = Rights(2);
    /// Change words of it in one step.
    pub const ATOMIC: Rights = Rights(4);
    /// What is done with its bytes.
    pub const DATA: Rights = Rights(7);
    /// Give it a name, and say what others may.
    pub const SHARE: Rights = Rights(8);
    /// Free, enlarge and move it, and appoint others who may. It lives as long as one who may.
    pub const MANAGE: Rights = Rights(16);
    /// Everything.
    pub const ALL: Rights = Rights(31);

    const NAMES: [(Rights, &str); 5] = [
        (Rights::READ, "read"),
        (Rights::WRITE, "write"),
        (Rights::ATOMIC, "atomic"),
        (Rights::SHARE, "share"),
        (Rights::MANAGE, "manage"),
    ];

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Those that are among both.
    #[must_use]
    pub const fn within(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// Whether all of `wanted` are among these.
    pub const fn have(self, wanted: Rights) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set with these bits, if each is a right.
    pub fn from_bits(bits: u32) -> Option<Rights> {
        (bits & !Self::ALL.0 == 0).then_some(Rights(bits))
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let found = r.u32();
        Self::from_bits(found).ok_or(WireError::Field { name: "rights", found: u64::from(found) })
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let names = Self::NAMES.iter().filter(|(right, _)| self.have(*right));
        let words: Vec<_> = names.map(|(_, name)| *name).collect();
        f.write_str(&words.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_says_so() {
        let both = Rights::READ.and(Rights::ATOMIC);
        assert!(both.have(Rights::READ) && !both.have(Rights::ALL));
        assert_eq!(both.within(Rights::ALL), both);
        assert_eq!(
            (both.to_string(), Rights::NONE.to_string()),
            ("read+atomic".into(), "none".into())
        );
        assert_eq!(Rights::from_bits(32), None);
    }
}
