//! What a restricted session may use that has a name: snapshot and memory regions, locks, functions. Names,
//! a right, and whose.
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
//! ```

use std::fmt;

use crate::snapshot::region_name::{NameError, RegionName, NAME_BYTES};
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
}

impl NamesOf {
    /// Each service.
    pub const ALL: [NamesOf; 4] = [Self::Snapshots, Self::Memory, Self::Locks, Self::Functions];

    /// The key of a policy file that grants its names.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshot",
            Self::Memory => "memory",
            Self::Locks => "lock",
            Self::Functions => "call",
        }
    }

    /// The flag that grants its names.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Snapshots => "--snapshot",
            Self::Memory => "--region",
            Self::Locks => "--lock",
            Self::Functions => "--call",
        }
    }

    /// What may stand before its names, as the services say.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Snapshots => "/snapshot/",
            Self::Memory => crate::memory::name::PREFIX,
            Self::Locks => crate::lock::name::PREFIX,
            Self::Functions => crate::rpc::name::PREFIX,
        }
    }

    const fn rights(self) -> &'static [RegionRight] {
        match self {
            Self::Snapshots => &[RegionRight::Publish, RegionRight::Attach],
            Self::Memory => &[RegionRight::Read, RegionRight::Write, RegionRight::Allocate],
            Self::Locks => &[RegionRight::Acquire],
            Self::Functions => &[RegionRight::Call, RegionRight::Serve],
        }
    }
}

impl RegionRight {
    /// As it stands after a name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Attach => "attach",
            Self::Read => "read",
            Self::Write => "write",
            Self::Allocate => "allocate",
            Self::Acquire => "acquire",
            Self::Call => "call",
            Self::Serve => "serve",
        }
    }

    /// Which service's names it is about.
    pub const fn names(self) -> NamesOf {
        match self {
            Self::Publish | Self::Attach => NamesOf::Snapshots,
            Self::Read | Self::Write | Self::Allocate => NamesOf::Memory,
            Self::Acquire => NamesOf::Locks,
            Self::Call | Self::Serve => NamesOf::Functions,
        }
    }

    /// Whether it is about names of the own user only.
    const fn makes(self) -> bool {
        matches!(self, Self::Publish | Self::Allocate | Self::Serve)
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
        let (name, rest) = text.split_once(':').ok_or(ScopeError::Right(rights))?;
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
        let is_right =
            right == self.right || (right, self.right) == (RegionRight::Read, RegionRight::Write);
        is_right && is_whose && self.names.have(name)
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
    fn scopes_of_memory_have_their_rights_and_those_of_snapshots_do_not() {
        use RegionRight::{Allocate, Attach, Read, Write};
        let scope = |text| RegionScope::parse_memory(text).unwrap();
        let has = |text, right, name, owner| {
            scope(text).has(right, &RegionName::parse(name).unwrap(), owner, 7)
        };
        assert!(has("kv/*:write", Read, "kv/a", 7) && has("kv/*:write", Write, "kv/a", 7));
        assert!(!has("kv/*:read", Write, "kv/a", 7) && !has("kv/*:write", Allocate, "kv/a", 7));
        assert!(!has("kv:read", Attach, "kv", 7) && !has("kv:read", Read, "kv", 8));
        assert!(has("/memory/kv:read:8", Read, "kv", 8) && has("kv:allocate", Allocate, "kv", 7));
        for text in ["a:read", "a/*:write:*", "a/b:allocate", "*:read:8"] {
            let one = scope(text);
            assert_eq!(one.to_string(), text);
            let mut bytes = [0; 96];
            one.encode(&mut Writer::new(&mut bytes));
            assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
        }
        let why = |text: &str| RegionScope::parse_memory(text).unwrap_err().to_string();
        assert!(why("a:attach").contains("NAME:read or NAME:write or NAME:allocate"));
        assert_eq!(RegionScope::parse_memory("a:allocate:7"), Err(ScopeError::PublishedByOthers));
    }

    #[test]
    fn scopes_of_locks_and_functions_have_their_rights_and_no_others() {
        use RegionRight::{Acquire, Call, Read, Serve};
        let has = |names, text: &str, right, name: &str, owner| {
            let scope = RegionScope::parse_of(names, text).unwrap();
            scope.has(right, &RegionName::parse(name).unwrap(), owner, 7)
        };
        let (locks, functions) = (NamesOf::Locks, NamesOf::Functions);
        assert!(has(locks, "/lock/jobs/*:acquire", Acquire, "jobs/0", 7));
        assert!(!has(locks, "jobs:acquire", Call, "jobs", 7));
        assert!(!has(locks, "jobs:acquire", Acquire, "jobs", 8));
        assert!(has(functions, "/rpc/f:call:8", Call, "f", 8));
        assert!(
            !has(functions, "f:call", Serve, "f", 7) && has(functions, "f:serve", Serve, "f", 7)
        );
        assert!(
            !has(functions, "f:serve", Call, "f", 7) && !has(functions, "f:call", Read, "f", 7)
        );
        for (names, text) in
            [(locks, "a/*:acquire:*"), (functions, "f:call:8"), (functions, "f:serve")]
        {
            let one = RegionScope::parse_of(names, text).unwrap();
            assert_eq!((one.to_string().as_str(), one.right.names()), (text, names));
            let mut bytes = [0; 96];
            one.encode(&mut Writer::new(&mut bytes));
            assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
        }
        let why = |names, text: &str| RegionScope::parse_of(names, text).unwrap_err().to_string();
        assert!(why(locks, "a:call").contains("NAME:acquire"));
        assert!(why(functions, "a").contains("NAME:call or NAME:serve"));
        assert!(why(functions, "a:serve:7").contains("leave the user out"));
    }

    #[test]
    fn what_says_no_regions_says_what_to_write() {
        let why = |text: &str| RegionScope::parse(text).unwrap_err();
        assert_eq!(why("a"), ScopeError::Right(NamesOf::Snapshots.rights()));
        assert_eq!(why("a:read"), ScopeError::Right(NamesOf::Snapshots.rights()));
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
        for (at, value) in [(0, 6), (4, 3), (12, 2), (16, 65), (16, 3), (20, b'/'), (20, b'*')] {
            let mut bytes = good;
            bytes[at] = value;
            assert!(RegionScope::decode(&mut Reader::new(&bytes)).is_err(), "{at}: {value}");
        }
        good[0] = RegionRight::Publish as u8;
        assert!(RegionScope::decode(&mut Reader::new(&good)).is_err(), "published by others");
    }
}
