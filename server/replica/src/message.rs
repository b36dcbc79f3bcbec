//! What nodes ask each other: one byte says what, the rest of the header is about whom.
//!
//! ```text
//! header          payload                answer
//! 1 key           Append                 Received
//! 2 user u32      Operate                Answer
//! 3               identity, epoch u64    nothing
//! 4 key           -                      life u64, revision u64, record
//! 5 key           expected u64, record   life u64, revision u64 (0: it was another)
//! 6 user u32      identity               0 freed, 1 not, 2 the user may not
//! 7 user u32      identity, u64 (who u32, rights u32; who u32::MAX: all others)
//!                                        0 altered, 1 not, 2 it has no room, 3 the user may not
//! ```

use heliostat_service_replica::{Identity, Member};

/// A key: `uid/name`.
pub(crate) const KEY_BYTES_MAX: usize = 128;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Append = 1,
    Operate = 2,
    Forget = 3,
    Read = 4,
    Write = 5,
    Free = 6,
    Alter = 7,
}

/// A header.
pub(crate) fn header(kind: Kind, about: &[u8]) -> Vec<u8> {
    [&[kind as u8], about].concat()
}

/// What a foreign header asks, and about what.
pub(crate) fn kind_of(header: &[u8]) -> Option<(Kind, &[u8])> {
    let (first, rest) = header.split_first()?;
    let all = [
        Kind::Append,
        Kind::Operate,
        Kind::Forget,
        Kind::Read,
        Kind::Write,
        Kind::Free,
        Kind::Alter,
    ];
    let kind = all.into_iter().find(|it| *it as u8 == *first)?;
    Some((kind, rest))
}

/// A foreign key.
pub(crate) fn key_of(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|it| it.len() <= KEY_BYTES_MAX)?;
    Some(text.to_owned())
}

/// A foreign number at some place.
pub(crate) fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A foreign user.
pub(crate) fn user_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// An identity and a number as bytes.
pub(crate) fn put_identity(it: Identity, more: u64) -> Vec<u8> {
    [it.maker.node, it.maker.life, it.number, more].iter().flat_map(|it| it.to_le_bytes()).collect()
}

/// The same, foreign.
pub(crate) fn take_identity(bytes: &[u8]) -> Option<(Identity, u64)> {
    if bytes.len() != 32 {
        return None;
    }
    let maker = Member { node: number_at(bytes, 0)?, life: number_at(bytes, 8)? };
    Some((Identity { maker, number: number_at(bytes, 16)? }, number_at(bytes, 24)?))
}
