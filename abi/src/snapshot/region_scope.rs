//! What a restricted session may use that has a name: snapshot and memory regions, locks, functions,
//! areas. Names, a right, and whose.
//!
//! ```text
//! model/weights:publish     one name of the own user's
//! model/*:attach            every region of the own user's whose name begins so
//! model/*:attach:1000       those of user 1000
//! *:attach:*                those of all users, as far as the rules let the own user read them
//!
//! kv/mine/*:allocate        memory regions: to make them under such names
//! kv/cache:read             to map it for reading
//! kv/cache:write:1000       to map it for reading, writing and changing words
//!
//! jobs/*:acquire            locks, semaphores and barriers: to open and acquire them
//! resize:call:1000          a function of user 1000's: to call it
//! resize:serve              to serve it, among the own user's
//!
//! redis/log                 an area: to read and write it
//! redis/*:read:1000         to read those of user 1000
//! redis/log:manage          to change its size and end it, too
//! redis/*:create            to make them, among the own user's, and all of that
//! ```

mod beginning;

use std::fmt;

use crate::snapshot::region_name::{NameError, RegionName};
use crate::wire::{Reader, WireError, Writer};

/// What may be done with what has a name: some of the rights that rules give (`right.rs`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum RegionRight {
    /// Give it its name, and learn who reads it.
    Publish = 1,
    /// Attach to it and read its versions.
    Attach = 2,
    /// Map a memory region for reading.
    Read = 3,
    /// Map a memory region for reading, writing and changing words.
    Write = 4,
    /// Make a memory region under the name, or give it to one.
    Allocate = 5,
    /// Open a lock, semaphore or barrier, and acquire it.
    Acquire = 7,
    /// Call a function.
    Call = 9,
    /// Serve a function.
    Serve = 11,
    /// Read an area.
    ReadArea = 13,
    /// Read and write an area.
    WriteArea = 14,
    /// That, and to change its size, say what others may, and end it.
    ManageArea = 15,
    /// That, and to make it.
    CreateArea = 16,
}

/// Which service's names a right is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamesOf {
    /// Snapshot regions.
    Snapshots,
    /// Memory regions.
    Memory,
    /// Locks, semaphores and barriers.
    Locks,
    /// Functions.
    Functions,
    /// Areas of a store.
    Areas,
}

impl NamesOf {
    /// Each service.
    pub const ALL: [NamesOf; 5] =
        [Self::Snapshots, Self::Memory, Self::Locks, Self::Functions, Self::Areas];

    /// The key of a policy file that grants its names.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshot",
            Self::Memory => "memory",
            Self::Locks => "lock",
            Self::Functions => "call",
            Self::Areas => "area",
        }
    }

    /// The flag that grants its names.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Snapshots => "--snapshot",
            Self::Memory => "--region",
            Self::Locks => "--lock",
            Self::Functions => "--call",
            Self::Areas => "--area",
        }
    }

    /// What may stand before its names: what the services say too (`needs.rs` proves it), which this
    /// module cannot ask, since their names are built on this folder's.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Snapshots => "/snapshot/",
            Self::Memory => "/memory/",
            Self::Locks => "/lock/",
            Self::Functions => "/rpc/",
            Self::Areas => "/store/",
        }
    }

    const fn rights(self) -> &'static [RegionRight] {
        match self {
            Self::Snapshots => &[RegionRight::Publish, RegionRight::Attach],
            Self::Memory => &[RegionRight::Read, RegionRight::Write, RegionRight::Allocate],
            Self::Locks => &[RegionRight::Acquire],
            Self::Functions => &[RegionRight::Call, RegionRight::Serve],
            Self::Areas => &RegionRight::OF_AREAS,
        }
    }
}

impl RegionRight {
    /// Those on areas: each has those before it.
    const OF_AREAS: [RegionRight; 4] =
        [Self::ReadArea, Self::WriteArea, Self::ManageArea, Self::CreateArea];

    /// As it stands after a name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Attach => "attach",
            Self::Read | Self::ReadArea => "read",
            Self::Write | Self::WriteArea => "write",
            Self::Allocate => "allocate",
            Self::Acquire => "acquire",
            Self::Call => "call",
            Self::Serve => "serve",
            Self::ManageArea => "manage",
            Self::CreateArea => "create",
        }
    }

    /// Which service's names it is about.
    pub const fn names(self) -> NamesOf {
        match self {
            Self::Publish | Self::Attach => NamesOf::Snapshots,
            Self::Read | Self::Write | Self::Allocate => NamesOf::Memory,
            Self::Acquire => NamesOf::Locks,
            Self::Call | Self::Serve => NamesOf::Functions,
            Self::ReadArea | Self::WriteArea | Self::ManageArea | Self::CreateArea => {
                NamesOf::Areas
            }
        }
    }

    /// Whether who has this one has that one by it.
    fn has(self, other: RegionRight) -> bool {
        let is_of_areas = self.names() == NamesOf::Areas && other.names() == NamesOf::Areas;
        let is_less = is_of_areas && other <= self;
        other == self || is_less || (other, self) == (Self::Read, Self::Write)
    }

    /// Whether it is about names of the own user only.
    const fn makes(self) -> bool {
        matches!(self, Self::Publish | Self::Allocate | Self::Serve | Self::CreateArea)
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

/// Regions, locks or functions on which a session has a right.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionScope {
    /// Their names.
    pub names: RegionNames,
    /// Which.
    pub right: RegionRight,
    /// Whose they are. What is published is the own user's.
    pub whose: Whose,
}

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

impl RegionScope {
    /// All regions, as far as the rules let the own user have the right.
    pub fn everything(right: RegionRight) -> Self {
        let whose = match right {
            right if right.makes() => Whose::Own,
            _ => Whose::Everybody,
        };
        Self { names: RegionNames::Beginning(String::new()), right, whose }
    }

    /// Reads `NAME:publish`, `NAME:attach` or `NAME:attach:UID`, where NAME may end in `*`.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        Self::parse_of(NamesOf::Snapshots, text)
    }

    /// The same for memory regions: `NAME:read`, `NAME:write`, with or without a user, `NAME:allocate`.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_memory(text: &str) -> Result<Self, ScopeError> {
        Self::parse_of(NamesOf::Memory, text)
    }

    /// The same for the names of some service.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_of(names: NamesOf, text: &str) -> Result<Self, ScopeError> {
        let (text, rights) = (text.strip_prefix(names.prefix()).unwrap_or(text), names.rights());
        let (name, rest) = match (text.split_once(':'), names) {
            (Some(both), _) => both,
            // Without a word an area is read and written.
            (None, NamesOf::Areas) => (text, RegionRight::WriteArea.word()),
            (None, _) => return Err(ScopeError::Right(rights)),
        };
        let (word, user) = match rest.split_once(':') {
            Some((word, user)) => (word, Some(user)),
            None => (rest, None),
        };
        let right = rights.iter().copied().find(|right| right.word() == word);
        let right = right.ok_or(ScopeError::Right(rights))?;
        let whose = match (right, user) {
            (_, None) => Whose::Own,
            (right, Some(_)) if right.makes() => return Err(ScopeError::PublishedByOthers),
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
        self.right.has(right) && is_whose && self.names.have(name)
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
            3 => RegionRight::Read,
            4 => RegionRight::Write,
            5 => RegionRight::Allocate,
            7 => RegionRight::Acquire,
            9 => RegionRight::Call,
            11 => RegionRight::Serve,
            13 => RegionRight::ReadArea,
            14 => RegionRight::WriteArea,
            15 => RegionRight::ManageArea,
            16 => RegionRight::CreateArea,
            found => return Err(wrong("right on regions", found)),
        };
        let whose = match (r.u32(), r.u32()) {
            (0, 0) => Whose::Own,
            (1, user) if !right.makes() && user != u32::MAX => Whose::User(user),
            (2, 0) if !right.makes() => Whose::Everybody,
            (found, _) => return Err(wrong("whose regions", found)),
        };
        let names = match r.u32() {
            0 => RegionNames::One(RegionName::decode(r)?),
            1 => RegionNames::Beginning(beginning::take(r)?),
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

#[cfg(test)]
#[path = "region_scope_tests.rs"]
mod tests;
