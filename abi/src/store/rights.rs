//! What a handle on an area allows: a set of bits.

use std::fmt;

/// What one may do with an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct AreaRights(u32);

impl AreaRights {
    /// Nothing.
    pub const NONE: AreaRights = AreaRights(0);
    /// Read it.
    pub const READ: AreaRights = AreaRights(1);
    /// Write it, and have what was written last.
    pub const WRITE: AreaRights = AreaRights(2);
    /// Change its size, end it, and say what others may.
    pub const MANAGE: AreaRights = AreaRights(4);
    /// Everything.
    pub const ALL: AreaRights = AreaRights(7);

    const NAMES: [(AreaRights, &str); 3] =
        [(AreaRights::READ, "read"), (AreaRights::WRITE, "write"), (AreaRights::MANAGE, "manage")];

    /// These and those.
    #[must_use]
    pub const fn and(self, other: AreaRights) -> AreaRights {
        AreaRights(self.0 | other.0)
    }

    /// Whether all of `wanted` are among these.
    pub const fn have(self, wanted: AreaRights) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set with these bits, if each is a right.
    pub fn from_bits(bits: u32) -> Option<AreaRights> {
        (bits & !Self::ALL.0 == 0).then_some(AreaRights(bits))
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl fmt::Display for AreaRights {
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
        let both = AreaRights::READ.and(AreaRights::MANAGE);
        assert!(both.have(AreaRights::READ) && !both.have(AreaRights::WRITE));
        assert_eq!(both.to_string(), "read+manage");
        assert_eq!(AreaRights::NONE.to_string(), "none");
        assert_eq!(AreaRights::from_bits(both.bits()), Some(both));
        assert_eq!(AreaRights::from_bits(8), None);
    }
}
