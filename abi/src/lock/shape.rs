//! What a lock is, as all who open it have to agree, and what is claimed of one.

use super::limits::{PARTICIPANTS_MAX, PERMITS_MAX};
use crate::wire::{Reader, WireError, Writer};

/// What kind of thing has the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Kind {
    /// One holder at a time.
    Lock = 1,
    /// One writer, or any number of readers.
    ReaderWriter = 2,
    /// As many permits as were said.
    Semaphore = 3,
    /// As many participants as were said; the last one that arrives lets all go on.
    Barrier = 4,
}

impl Kind {
    /// Every kind, with its word for people.
    pub const ALL: [(Kind, &'static str); 4] = [
        (Kind::Lock, "lock"),
        (Kind::ReaderWriter, "reader-writer lock"),
        (Kind::Semaphore, "semaphore"),
        (Kind::Barrier, "barrier"),
    ];

    /// Its word for people.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("?", |(_, word)| word)
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let found = r.u32();
        let known = Self::ALL.iter().find(|(kind, _)| *kind as u32 == found);
        known
            .map(|(kind, _)| *kind)
            .ok_or(WireError::Field { name: "kind", found: u64::from(found) })
    }
}

const SILENT: u32 = 1;

/// What a lock is. Whoever opens a name says it, and it must be what the first one said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Shape {
    /// What kind of thing.
    pub kind: Kind,
    /// Permits of a semaphore, 1 to 2^31, or participants of a barrier, 1 to 65,536; else 0.
    pub count: u32,
    /// Nobody is told that a holder has died.
    pub is_silent: bool,
}

impl Shape {
    /// A plain lock.
    pub const LOCK: Shape = Shape { kind: Kind::Lock, count: 0, is_silent: false };
    /// A reader-writer lock.
    pub const READER_WRITER: Shape = Shape { kind: Kind::ReaderWriter, count: 0, is_silent: false };

    /// A semaphore; `None` for a number of permits that none has.
    pub fn semaphore(permits: u32) -> Option<Shape> {
        Shape { kind: Kind::Semaphore, count: permits, is_silent: false }.checked().ok()
    }

    /// A barrier; `None` for a number of participants that none has.
    pub fn barrier(participants: u32) -> Option<Shape> {
        Shape { kind: Kind::Barrier, count: participants, is_silent: false }.checked().ok()
    }

    /// The same, of which nobody is told that a holder has died. A barrier is as it was: there the
    /// others have to know.
    pub fn silent(self) -> Shape {
        Shape { is_silent: self.kind != Kind::Barrier, ..self }
    }

    fn checked(self) -> Result<Self, WireError> {
        let is_right = match self.kind {
            Kind::Lock | Kind::ReaderWriter => self.count == 0,
            Kind::Semaphore => (1..=PERMITS_MAX).contains(&self.count),
            Kind::Barrier => (1..=PARTICIPANTS_MAX).contains(&self.count),
        };
        is_right
            .then_some(self)
            .ok_or(WireError::Field { name: "count", found: u64::from(self.count) })
    }

    pub(crate) fn encode<'w, 'a>(&self, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
        w.u32(self.kind as u32).u32(self.count).u32(if self.is_silent { SILENT } else { 0 })
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (kind, count, flags) = (Kind::decode(r)?, r.u32(), r.u32());
        if flags > SILENT || (flags == SILENT && kind == Kind::Barrier) {
            return Err(WireError::Field { name: "flags", found: u64::from(flags) });
        }
        Shape { kind, count, is_silent: flags == SILENT }.checked()
    }
}

/// What is asked of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// To be its only holder.
    Exclusive,
    /// To be one of its readers.
    Shared,
    /// Permits of a semaphore, at least one.
    Permits(u32),
}

impl Claim {
    pub(crate) fn encode<'w, 'a>(self, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
        match self {
            Self::Exclusive => w.u32(1).u32(0),
            Self::Shared => w.u32(2).u32(0),
            Self::Permits(count) => w.u32(3).u32(count),
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        match (r.u32(), r.u32()) {
            (1, 0) => Ok(Self::Exclusive),
            (2, 0) => Ok(Self::Shared),
            (3, count) if (1..=PERMITS_MAX).contains(&count) => Ok(Self::Permits(count)),
            (1..=3, count) => Err(WireError::Field { name: "permits", found: u64::from(count) }),
            (found, _) => Err(WireError::Field { name: "claim", found: u64::from(found) }),
        }
    }
}
