//! Messages and records as bytes. What comes in is foreign: read once, checked, and then used.
//!
//! ```text
//! member    node u64, life u64             placement  maker, number u64, owner u32, others u32, bytes u64,
//! request   member, number u64                        wanted u32, backups u16, appointed u16, epoch u64,
//!                                                     primary, backups, appointed (user u32, rights u32)
//! entry     term u64, has request u8, change u8 (0 nothing, 1 store, 2 set), value u8, 0 u8,
//!           length u32, word u64, offset u64, bytes u64, request if there is one, stored bytes
//! ```
//! All numbers are little-endian.

use std::sync::Arc;

use crate::action::{Action, Answer, Answered, Operate};
use crate::append::{Append, Change, Entry, Invitation, Received};
use crate::placement::{Identity, Member, Placement, RequestId};
use crate::{APPEND_BYTES_MAX, APPOINTED_MAX, LOG_ENTRIES_MAX, OPERATION_BYTES_MAX, REPLICAS_MAX};

/// Bytes that are written one after the other.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u8(&mut self, value: u8) -> &mut Out {
        self.0.push(value);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Out {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Out {
        self.bytes(&value.to_le_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Out {
        self.0.extend_from_slice(bytes);
        self
    }

    fn member(&mut self, member: Member) -> &mut Out {
        self.u64(member.node).u64(member.life)
    }

    fn placement(&mut self, it: &Placement) -> &mut Out {
        self.member(it.identity.maker).u64(it.identity.number).u32(it.owner).u32(it.others);
        let counts = it.backups.len() as u32 | (it.appointed.len() as u32) << 16;
        self.u64(it.bytes).u32(it.wanted).u32(counts).u64(it.epoch);
        self.member(it.primary);
        for backup in &it.backups {
            self.member(*backup);
        }
        for (user, rights) in &it.appointed {
            self.u32(*user).u32(*rights);
        }
        self
    }

    fn entry(&mut self, entry: &Entry) {
        let (kind, value, offset, bytes, stored): (u8, u8, u64, u64, &[u8]) = match &entry.change {
            Change::Nothing => (0, 0, 0, 0, &[]),
            Change::Store { offset, bytes } => (1, 0, *offset, bytes.len() as u64, bytes),
            Change::Set { offset, bytes, value } => (2, *value, *offset, *bytes, &[]),
        };
        self.u64(entry.term).u8(u8::from(entry.id.is_some())).u8(kind).u8(value).u8(0);
        self.u32(stored.len() as u32).u64(entry.word).u64(offset).u64(bytes);
        if let Some(id) = entry.id {
            self.member(id.asker).u64(id.number);
        }
        self.bytes(stored);
    }
}

/// Foreign bytes that are read one after the other; nothing where there are no more.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn member(&mut self) -> Option<Member> {
        Some(Member { node: self.u64()?, life: self.u64()? })
    }

    fn identity(&mut self) -> Option<Identity> {
        Some(Identity { maker: self.member()?, number: self.u64()? })
    }

    fn request(&mut self) -> Option<RequestId> {
        Some(RequestId { asker: self.member()?, number: self.u64()? })
    }

    fn placement(&mut self) -> Option<Placement> {
        let (identity, owner, others) = (self.identity()?, self.u32()?, self.u32()?);
        let (bytes, wanted, counts, epoch) = (self.u64()?, self.u32()?, self.u32()?, self.u64()?);
        let (count, appointed) = (counts & 0xffff, counts >> 16);
        let primary = self.member()?;
        let is_sound = (count as usize) < REPLICAS_MAX
            && (wanted as usize) <= REPLICAS_MAX
            && appointed as usize <= APPOINTED_MAX;
        if !is_sound || bytes == 0 || epoch == 0 {
            return None;
        }
        let backups = (0..count).map(|_| self.member()).collect::<Option<Vec<_>>>()?;
        let appointed = (0..appointed).map(|_| Some((self.u32()?, self.u32()?)));
        let appointed = appointed.collect::<Option<Vec<_>>>()?;
        Some(Placement {
            identity,
            owner,
            others,
            appointed,
            bytes,
            wanted,
            epoch,
            primary,
            backups,
        })
    }

    fn entry(&mut self) -> Option<Entry> {
        let (term, has_id, kind, value) = (self.u64()?, self.u8()?, self.u8()?, self.u8()?);
        let (rest, length, word) = (self.u8()?, self.u32()? as usize, self.u64()?);
        let (offset, bytes) = (self.u64()?, self.u64()?);
        if rest != 0 || has_id > 1 {
            return None;
        }
        let id = if has_id == 1 { Some(self.request()?) } else { None };
        let stored = self.bytes(length)?;
        let change = match kind {
            0 if length == 0 => Change::Nothing,
            1 if length as u64 == bytes => Change::Store { offset, bytes: Arc::from(stored) },
            2 if length == 0 => Change::Set { offset, bytes, value },
            _ => return None,
        };
        Some(Entry { term, id, word, change })
    }

    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

impl Placement {
    /// The record in the registry.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.placement(self);
        out.0
    }

    /// A foreign record; none where it is no placement.
    pub fn decode(bytes: &[u8]) -> Option<Placement> {
        let mut found = In(bytes);
        let placement = found.placement()?;
        found.end(placement)
    }
}

impl Append {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.placement(&self.placement).u64(self.term).u64(self.start).u64(self.committed);
        let Invitation { epoch, base, instance } =
            self.invitation.unwrap_or(Invitation { epoch: 0, base: 0, instance: None });
        out.u64(epoch).u64(base).u64(instance.unwrap_or(0)).u64(self.first);
        out.u32(self.entries.len() as u32);
        self.entries.iter().for_each(|entry| out.entry(entry));
        out.0
    }

    /// A foreign message.
    pub fn decode(bytes: &[u8]) -> Option<Append> {
        let mut found = In(bytes);
        let placement = found.placement()?;
        let (term, start, committed) = (found.u64()?, found.u64()?, found.u64()?);
        let (epoch, base, instance, first) =
            (found.u64()?, found.u64()?, found.u64()?, found.u64()?);
        let instance = (instance != 0).then_some(instance);
        let invitation = (epoch != 0).then_some(Invitation { epoch, base, instance });
        let count = found.u32()? as usize;
        // A base that nothing can come after would make numbers wrap.
        if count > LOG_ENTRIES_MAX || first == 0 || first.max(base).max(start) > u64::MAX / 2 {
            return None;
        }
        let entries = (0..count).map(|_| found.entry()).collect::<Option<Vec<_>>>()?;
        found.end(Append { placement, term, start, committed, invitation, first, entries })
    }
}

impl Received {
    /// The answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        match *self {
            Received::Have { entry, instance, is_confirmed } => {
                out.u8(1).u8(u8::from(is_confirmed)).u64(entry).u64(instance)
            }
            Received::Stale => out.u8(2),
            Received::Unknown => out.u8(3),
            Received::Full => out.u8(4),
        };
        out.0
    }

    /// A foreign answer.
    pub fn decode(bytes: &[u8]) -> Option<Received> {
        let mut found = In(bytes);
        let received = match found.u8()? {
            1 => {
                let is_confirmed = found.u8()? == 1;
                Received::Have { entry: found.u64()?, instance: found.u64()?, is_confirmed }
            }
            2 => Received::Stale,
            3 => Received::Unknown,
            4 => Received::Full,
            _ => return None,
        };
        found.end(received)
    }
}

impl Operate {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.member(self.region.maker).u64(self.region.number).u64(self.epoch);
        out.member(self.id.asker).u64(self.id.number).u64(self.floor);
        let (kind, value, [a, b, c], written): (u8, u8, [u64; 3], &[u8]) = match &self.action {
            Action::Read { offset, bytes } => (1, 0, [*offset, *bytes, 0], &[]),
            Action::Write { offset, bytes } => (2, 0, [*offset, 0, 0], bytes),
            Action::Set { offset, bytes, value } => (3, *value, [*offset, *bytes, 0], &[]),
            Action::Copy { from, to, bytes } => (4, 0, [*from, *to, *bytes], &[]),
            Action::FetchAdd { offset, more } => (5, 0, [*offset, *more, 0], &[]),
            Action::CompareSwap { offset, expected, new } => {
                (6, 0, [*offset, *expected, *new], &[])
            }
            Action::Swap { offset, new } => (7, 0, [*offset, *new, 0], &[]),
        };
        out.u8(kind).u8(value).u64(a).u64(b).u64(c).bytes(written);
        out.0
    }

    /// A foreign message.
    pub fn decode(bytes: &[u8]) -> Option<Operate> {
        let mut found = In(bytes);
        let (region, epoch, id) = (found.identity()?, found.u64()?, found.request()?);
        let (floor, kind, value) = (found.u64()?, found.u8()?, found.u8()?);
        let (a, b, c) = (found.u64()?, found.u64()?, found.u64()?);
        let written = found.0;
        let action = match kind {
            1 => Action::Read { offset: a, bytes: b },
            2 if written.len() as u64 <= OPERATION_BYTES_MAX => {
                Action::Write { offset: a, bytes: Arc::from(written) }
            }
            3 => Action::Set { offset: a, bytes: b, value },
            4 => Action::Copy { from: a, to: b, bytes: c },
            5 => Action::FetchAdd { offset: a, more: b },
            6 => Action::CompareSwap { offset: a, expected: b, new: c },
            7 => Action::Swap { offset: a, new: b },
            _ => return None,
        };
        (kind == 2 || written.is_empty()).then_some(Operate { region, epoch, id, floor, action })
    }
}

impl Answer {
    /// The answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        match self {
            Answer::Done(Answered { entry, word, read }) => {
                out.u8(1).u64(*entry).u64(*word).bytes(read)
            }
            Answer::NotPrimary { may_be_done } => out.u8(2).u8(u8::from(*may_be_done)),
            Answer::Busy => out.u8(3),
            Answer::TooOld { floor } => out.u8(4).u64(*floor),
            Answer::Range => out.u8(5),
            Answer::Denied => out.u8(6),
        };
        out.0
    }

    /// A foreign answer.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let mut found = In(bytes);
        let answer = match found.u8()? {
            1 => {
                let (entry, word) = (found.u64()?, found.u64()?);
                let read = std::mem::take(&mut found.0).to_vec();
                Answer::Done(Answered { entry, word, read })
            }
            2 => Answer::NotPrimary { may_be_done: found.u8()? == 1 },
            3 => Answer::Busy,
            4 => Answer::TooOld { floor: found.u64()? },
            5 => Answer::Range,
            6 => Answer::Denied,
            _ => return None,
        };
        found.end(answer)
    }
}

const _: () = assert!(APPEND_BYTES_MAX + OPERATION_BYTES_MAX as usize <= 4 << 20);

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
