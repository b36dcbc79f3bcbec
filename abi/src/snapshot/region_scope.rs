//! Which snapshot regions a restricted session may publish or attach to: names, a right, and whose.
//!
//! ```text
//! model/weights:publish     one name of the own user's
//! model/*:attach            every region of the own user's whose name begins so
//! model/*:attach:1000       those of user 1000
//! *:attach:*                those of all users, as far as the rules let the own user read them
//! ```

use std::fmt;

use crate::snapshot::region_name::{NameError, RegionName, NAME_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// What may be done with a region: two of the rights that rules give (`right.rs`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum RegionRight {
    /// Give it its name, and learn who reads it.
    Publish = 1,
    /// Attach to it and read its versions.
    Attach = 2,
}

impl RegionRight {
    /// As it stands after a name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Attach => "attach",
        }
    }
}

/// Which names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RegionNames {
    /// One.
    One(RegionName),
    /// All that begin so.
    Beginning(String),
}

/// Among whose names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Whose {
    /// The session's own user's.
    Own,
    /// This user's.
    User(u32),
    /// All users'.
    Everybody,
}

/// Regions on which a session has a right.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionScope {
    /// Their names.
    pub names: RegionNames,
    /// Publish or attach.
    pub right: RegionRight,
    /// Whose they are. What is published is the own user's.
    pub whose: Whose,
}

/// Why a text says no regions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScopeError {
    /// There is no right after the name.
    Right,
    /// The name is none.
    Name(NameError),
    /// What stands after `attach` is neither a user's number nor `*`.
    Whose(String),
    /// A region is published under the own user's names only.
    PublishedByOthers,
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => write!(f, "there is no right; write NAME:publish or NAME:attach"),
            Self::Name(error) => error.fmt(f),
            Self::Whose(found) => {
                write!(f, "{found:?} is no user's number; write NAME:attach:UID, or * for all")
            }
            Self::PublishedByOthers => {
                write!(f, "a region is published under one's own names; leave the user out")
            }
        }
    }
}

impl std::error::Error for ScopeError {}

impl RegionScope {
    /// All regions, as far as the rules let the own user have the right.
    pub fn everything(right: RegionRight) -> Self {
        let whose = match right {
            RegionRight::Publish => Whose::Own,
            RegionRight::Attach => Whose::Everybody,
        };
        Self { names: RegionNames::Beginning(String::new()), right, whose }
    }

    /// Reads `NAME:publish`, `NAME:attach` or `NAME:attach:UID`, where NAME may end in `*`.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let (name, rest) = text.split_once(':').ok_or(ScopeError::Right)?;
        let (word, user) = match rest.split_once(':') {
            Some((word, user)) => (word, Some(user)),
            None => (rest, None),
        };
        let both = [RegionRight::Publish, RegionRight::Attach];
        let right = both.into_iter().find(|right| right.word() == word).ok_or(ScopeError::Right)?;
        let whose = match (right, user) {
            (_, None) => Whose::Own,
            (RegionRight::Publish, Some(_)) => return Err(ScopeError::PublishedByOthers),
            (_, Some("*")) => Whose::Everybody,
            (_, Some(user)) => Whose::parse(user)?,
        };
        Ok(Self { names: RegionNames::parse(name).map_err(ScopeError::Name)?, right, whose })
    }

    /// Whether a region's right is given to a session of user `own`; `owner` is the user whose it is.
    pub fn has(&self, right: RegionRight, name: &RegionName, owner: u32, own: u32) -> bool {
        let is_whose = match self.whose {
            Whose::Own => owner == own,
            Whose::User(user) => owner == user,
            Whose::Everybody => true,
        };
        right == self.right && is_whose && self.names.have(name)
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        let (kind, user) = match self.whose {
            Whose::Own => (0, 0),
            Whose::User(user) => (1, user),
            Whose::Everybody => (2, 0),
        };
        w.u32(self.right as u32).u32(kind).u32(user);
        let (is_beginning, text) = match &self.names {
            RegionNames::One(name) => (0, name.as_str()),
            RegionNames::Beginning(text) => (1, text.as_str()),
        };
        w.u32(is_beginning).u32(text.len() as u32).put(text.as_bytes());
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let wrong = |name, found: u32| WireError::Field { name, found: u64::from(found) };
        let right = match r.u32() {
            1 => RegionRight::Publish,
            2 => RegionRight::Attach,
            found => return Err(wrong("right on regions", found)),
        };
        let whose = match (r.u32(), r.u32()) {
            (0, 0) => Whose::Own,
            (1, user) if right == RegionRight::Attach && user != u32::MAX => Whose::User(user),
            (2, 0) if right == RegionRight::Attach => Whose::Everybody,
            (found, _) => return Err(wrong("whose regions", found)),
        };
        let names = match r.u32() {
            0 => RegionNames::One(RegionName::decode(r)?),
            1 => RegionNames::Beginning(take_beginning(r)?),
            found => return Err(wrong("beginning of regions", found)),
        };
        Ok(Self { names, right, whose })
    }
}

impl Whose {
    fn parse(user: &str) -> Result<Self, ScopeError> {
        // To the kernel the greatest number means "no user".
        let number = user.parse().ok().filter(|number| *number != u32::MAX);
        number.map(Self::User).ok_or_else(|| ScopeError::Whose(user.to_owned()))
    }
}

impl RegionNames {
    /// Reads a name, or a beginning with a star after it; with or without `/snapshot/`.
    ///
    /// # Errors
    /// No name could be so, or begin so.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let Some(beginning) = text.strip_suffix('*') else {
            return RegionName::parse(text).map(Self::One);
        };
        let whole = RegionName::parse(&format!("{beginning}x"))?;
        let beginning = whole.as_str().strip_suffix('x').unwrap_or_default();
        Ok(Self::Beginning(beginning.to_owned()))
    }

    /// Whether a name is one of these.
    pub fn have(&self, name: &RegionName) -> bool {
        match self {
            Self::One(own) => own == name,
            Self::Beginning(beginning) => name.as_str().starts_with(beginning.as_str()),
        }
    }
}

impl fmt::Display for RegionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            RegionNames::One(name) => f.write_str(name.as_str())?,
            RegionNames::Beginning(beginning) => write!(f, "{beginning}*")?,
        }
        write!(f, ":{}", self.right.word())?;
        match self.whose {
            Whose::Own => Ok(()),
            Whose::User(user) => write!(f, ":{user}"),
            Whose::Everybody => write!(f, ":*"),
        }
    }
}

/// How names begin: in a record as a name is, and perhaps empty.
fn take_beginning(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = r.u32();
    let wrong = WireError::Field { name: "beginning of names", found: u64::from(length) };
    let bytes: [u8; NAME_BYTES] = r.take();
    let (text, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    let text = std::str::from_utf8(text).ok().filter(|text| !text.starts_with('/')).ok_or(wrong)?;
    match RegionNames::parse(&format!("{text}*")) {
        Ok(RegionNames::Beginning(beginning)) => Ok(beginning),
        _ => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> RegionScope {
        RegionScope::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn has(text: &str, right: RegionRight, name: &str, owner: u32) -> bool {
        scope(text).has(right, &RegionName::parse(name).unwrap(), owner, 7)
    }

    #[test]
    fn a_scope_has_its_names_in_its_rightof_its_users_and_no_others() {
        use RegionRight::{Attach, Publish};
        assert!(has("a/b:publish", Publish, "a/b", 7) && has("/snapshot/a:attach", Attach, "a", 7));
        assert!(!has("a:publish", Attach, "a", 7) && !has("a:attach", Publish, "a", 7));
        assert!(!has("a:attach", Attach, "a/b", 7) && !has("a:attach", Attach, "ab", 7));
        assert!(has("a/*:attach", Attach, "a/b", 7) && !has("a/*:attach", Attach, "ab", 7));
        assert!(has("*:attach", Attach, "any", 7) && !has("*:attach", Attach, "any", 8));
        assert!(has("a:attach:8", Attach, "a", 8) && !has("a:attach:8", Attach, "a", 7));
        assert!(has("a:attach:*", Attach, "a", 8) && has("a:attach:7", Attach, "a", 7));
    }

    #[test]
    fn texts_and_records_are_read_back_to_the_same() {
        let texts = ["a:publish", "a/b.c-d_e:attach", "a/*:publish", "*:attach:*", "a:attach:0"];
        for text in texts {
            let one = scope(text);
            assert_eq!(one.to_string(), text);
            let mut bytes = [0; 96];
            one.encode(&mut Writer::new(&mut bytes));
            assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
        }
        for right in [RegionRight::Publish, RegionRight::Attach] {
            let all = RegionScope::everything(right);
            assert_eq!(scope(&all.to_string()), all);
        }
    }

    #[test]
    fn what_says_no_regions_says_what_to_write() {
        let why = |text: &str| RegionScope::parse(text).unwrap_err();
        assert_eq!(why("a"), ScopeError::Right);
        assert_eq!(why("a:read"), ScopeError::Right);
        assert_eq!(why("a:publish:7"), ScopeError::PublishedByOthers);
        assert_eq!(why("a:attach:ann"), ScopeError::Whose("ann".into()));
        assert_eq!(why("a:attach:4294967295"), ScopeError::Whose("4294967295".into()));
        assert_eq!(why(":attach"), ScopeError::Name(NameError::Length(0)));
        assert_eq!(why("../*:attach"), ScopeError::Name(NameError::Part));
        assert_eq!(why("a*b:attach"), ScopeError::Name(NameError::Character('*')));
    }

    #[test]
    fn records_that_say_no_regions_are_refused() {
        let mut good = [0; 96];
        scope("a/*:attach:8").encode(&mut Writer::new(&mut good));
        for (at, value) in [(0, 3), (4, 3), (12, 2), (16, 65), (16, 3), (20, b'/'), (20, b'*')] {
            let mut bytes = good;
            bytes[at] = value;
            assert!(RegionScope::decode(&mut Reader::new(&bytes)).is_err(), "{at}: {value}");
        }
        good[0] = RegionRight::Publish as u8;
        assert!(RegionScope::decode(&mut Reader::new(&good)).is_err(), "published by others");
    }
}
