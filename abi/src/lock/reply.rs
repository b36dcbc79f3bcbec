//! What the lock service answers: the bodies of its replies. Others are Done and Refused.
//!
//! ```text
//! Opened   0 handle, lock                  Events  0 count u32, more u32, 0 u64
//! Outcome  0 ticket, outcome                      16 count times ticket, outcome
//!                                          Listed  0 count u32, next u32, 0 u64
//! outcome: which u32, detail u32, value u64       16 count entries of 116 bytes:
//! 0 busy  1 queued                                   lock, user u32, kind u32, count u32, flags u32,
//! 2 granted: owner died, token                       opened u32, held u32, waiting u32, state u32
//! 3 passed: index, generation                        (1 owner died, 2 broken), age u32 (seconds),
//! 4 broken: why, generation                          last u64 (token or generation), name
//! 5 lost: 0, node
//! ```

use super::limits::{EVENTS_PER_REPLY_MAX, LISTED_PER_REPLY_MAX};
use super::name::{self, LockName};
use super::outcome::Outcome;
use super::request::FIRST;
use super::shape::Shape;
use crate::name::ObjectId;
use crate::name_record::encode as put_text;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::snapshot::region_name::NAME_BYTES;
use crate::wire::{Reader, WireError, Writer};

const OPENED: u16 = FIRST + 128;
const OUTCOME: u16 = FIRST + 129;
const EVENTS: u16 = FIRST + 130;
const LISTED: u16 = FIRST + 131;

const HEAD_BYTES: usize = 16;
/// Bytes of an event.
pub(crate) const EVENT_BYTES: usize = 8 + Outcome::BYTES;
const LISTED_BYTES: usize = 8 + 9 * 4 + 8 + 4 + NAME_BYTES;
const OWNER_DIED: u32 = 1;
const BROKEN: u32 = 2;
/// `Listed::next` when there are no more.
pub const NO_MORE: u32 = u32::MAX;

const _: () = assert!(HEAD_BYTES + EVENTS_PER_REPLY_MAX * EVENT_BYTES <= REPLY_BODY_BYTES);
const _: () = assert!(HEAD_BYTES + LISTED_PER_REPLY_MAX * LISTED_BYTES <= REPLY_BODY_BYTES);

/// What became of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Which. None where an outcome has none: `Busy`, and a barrier that was passed or broken at once.
    pub ticket: ObjectId,
    /// How it stands now.
    pub outcome: Outcome,
}

/// One lock, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedLock {
    /// Its identity.
    pub lock: ObjectId,
    /// Whose name it has.
    pub user: u32,
    /// What it is.
    pub shape: Shape,
    /// Handles on it, of all sessions.
    pub opened: u32,
    /// Tickets that hold it.
    pub held: u32,
    /// Tickets that wait.
    pub waiting: u32,
    /// The next holder will be told that one has died.
    pub has_owner_died: bool,
    /// It is a barrier, and broken.
    pub is_broken: bool,
    /// Seconds since it was made.
    pub age_s: u32,
    /// Token of the last acquisition, or generation of the barrier.
    pub last: u64,
    /// Its name.
    pub name: LockName,
}

/// A reply of the lock service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockReply {
    /// To Open.
    Opened {
        /// The session's handle.
        handle: ObjectId,
        /// What it is on.
        lock: ObjectId,
    },
    /// To Acquire and Arrive; to Cancel, where there was nothing left to cancel.
    Outcome(Event),
    /// To Next.
    Events {
        /// Some, the oldest first.
        events: Vec<Event>,
        /// Whether there are more.
        more: bool,
    },
    /// To List.
    Listed {
        /// Some locks, in order of index.
        locks: Vec<ListedLock>,
        /// The index to go on from, or [`NO_MORE`].
        next: u32,
    },
}

impl LockReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let mut body = [0; REPLY_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        let number = match self {
            Self::Opened { handle, lock } => {
                handle.encode(&mut w);
                lock.encode(&mut w);
                OPENED
            }
            Self::Outcome(event) => {
                event.encode(&mut w);
                OUTCOME
            }
            Self::Events { events, more } => {
                w.u32(events.len() as u32).u32(u32::from(*more)).u64(0);
                events.iter().for_each(|event| event.encode(&mut w));
                EVENTS
            }
            Self::Listed { locks, next } => {
                w.u32(locks.len() as u32).u32(*next).u64(0);
                locks.iter().for_each(|lock| lock.encode(&mut w));
                LISTED
            }
        };
        OwnReply { number, body }
    }

    /// The reply in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnReply) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let reply = match own.number {
            OPENED => {
                let handle = ObjectId::decode(&mut r);
                Self::Opened { handle, lock: ObjectId::decode(&mut r) }
            }
            OUTCOME => Self::Outcome(Event::decode(&mut r)?),
            EVENTS => {
                let (events, more) = take_list(&mut r, EVENTS_PER_REPLY_MAX, Event::decode)?;
                Self::Events { events, more: take_flag("more", more)? }
            }
            LISTED => {
                let (locks, next) = take_list(&mut r, LISTED_PER_REPLY_MAX, ListedLock::decode)?;
                Self::Listed { locks, next }
            }
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}

/// Entries behind their number, and what stands beside it.
fn take_list<T>(
    r: &mut Reader<'_>,
    limit: usize,
    take: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<(Vec<T>, u32), WireError> {
    let (count, beside, zero) = (r.u32(), r.u32(), r.u64());
    if count as usize > limit {
        return Err(WireError::Field { name: "entries", found: u64::from(count) });
    }
    if zero != 0 {
        return Err(WireError::Reserved);
    }
    let entries = (0..count).map(|_| take(r)).collect::<Result<_, _>>()?;
    Ok((entries, beside))
}

fn take_flag(name: &'static str, found: u32) -> Result<bool, WireError> {
    match found {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(WireError::Field { name, found: u64::from(found) }),
    }
}

impl Event {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        self.ticket.encode(w);
        self.outcome.encode(w);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let ticket = ObjectId::decode(r);
        Ok(Self { ticket, outcome: Outcome::decode(r)? })
    }
}

impl ListedLock {
    fn encode(&self, w: &mut Writer<'_>) {
        self.lock.encode(w);
        self.shape.encode(w.u32(self.user));
        let mut state = 0;
        if self.has_owner_died {
            state |= OWNER_DIED;
        }
        if self.is_broken {
            state |= BROKEN;
        }
        w.u32(self.opened).u32(self.held).u32(self.waiting).u32(state).u32(self.age_s);
        put_text(self.name.as_str(), w.u64(self.last));
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (lock, user, shape) = (ObjectId::decode(r), r.u32(), Shape::decode(r)?);
        let (opened, held, waiting, state) = (r.u32(), r.u32(), r.u32(), r.u32());
        if state & !(OWNER_DIED | BROKEN) != 0 {
            return Err(WireError::Field { name: "state", found: u64::from(state) });
        }
        let (has_owner_died, is_broken) = (state & OWNER_DIED != 0, state & BROKEN != 0);
        let (age_s, last) = (r.u32(), r.u64());
        let name = name::decode(r)?;
        Ok(Self {
            lock,
            user,
            shape,
            opened,
            held,
            waiting,
            has_owner_died,
            is_broken,
            age_s,
            last,
            name,
        })
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
