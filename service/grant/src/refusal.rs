//! Why a service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::session::record::Bound;

use crate::quota::Exceeded;

/// A service's own reason: what the request names is not there, or not the session's.
pub trait Reason: fmt::Display {
    /// The code by which the session is told.
    fn code(&self) -> Code;
}

/// A limit is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    /// On what, and whose.
    pub bound: Bound,
    /// The limit in force.
    pub limit: u64,
}

impl Full {
    /// A limit of one session or of one object.
    pub fn of(thing: Thing, side: Side, limit: u64) -> Full {
        Full { bound: Bound::new(thing, side), limit }
    }

    /// A limit on what users share.
    pub fn shared(thing: Thing, exceeded: Exceeded) -> Full {
        Full::of(thing, exceeded.side, exceeded.limit)
    }
}

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal<R> {
    /// A limit is reached.
    Full(Full),
    /// The session's grants were revoked; it gets no new ones.
    Revoked,
    /// The service's own reason.
    Reason(R),
}

impl<R: Reason> Refusal<R> {
    /// The code by which the session is told.
    pub fn code(&self) -> Code {
        match self {
            Self::Full(_) => Code::Full,
            Self::Revoked => Code::Revoked,
            Self::Reason(reason) => reason.code(),
        }
    }
}

impl<R> From<Full> for Refusal<R> {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl<R: Reason> From<R> for Refusal<R> {
    fn from(reason: R) -> Self {
        Self::Reason(reason)
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound { thing, side } = self.bound;
        write!(f, "{} has no more than {} {}", side.text(), self.limit, thing.text())
    }
}

impl<R: Reason> fmt::Display for Refusal<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(full) => full.fmt(f),
            Self::Revoked => f.write_str("the session's grants were revoked"),
            Self::Reason(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for Full {}

impl<R: Reason + fmt::Debug> std::error::Error for Refusal<R> {}
