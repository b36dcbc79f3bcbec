//! Result codes: numbered by hand, never reused.

use ::heliostat_ring::{ReserveError, RingError, TakeError, WaitError};

/// What a call answered. Zero is success; negative numbers are kept for ever.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub enum heliostat_code {
    /// Done.
    HELIOSTAT_OK = 0,
    /// A pointer was null, or a name held no terminating zero.
    HELIOSTAT_NULL = -1,
    /// No space until the consumer releases something.
    HELIOSTAT_FULL = -2,
    /// No element is committed.
    HELIOSTAT_EMPTY = -3,
    /// The element or buffer does not fit and never will.
    HELIOSTAT_TOO_LARGE = -4,
    /// The other side broke the protocol.
    HELIOSTAT_CORRUPT = -5,
    /// The deadline has passed.
    HELIOSTAT_TIMED_OUT = -6,
    /// The other side is gone.
    HELIOSTAT_PEER_GONE = -7,
    /// That end of the ring is in use already in this process.
    HELIOSTAT_CLAIMED = -8,
    /// The kernel refused, or the memory is not fit to be a ring.
    HELIOSTAT_SYSTEM = -9,
    /// A bug of this library was caught at the border.
    HELIOSTAT_PANIC = -10,
}

pub(crate) use heliostat_code::*;

impl From<RingError> for heliostat_code {
    fn from(error: RingError) -> heliostat_code {
        match error {
            RingError::Capacity { .. } => HELIOSTAT_TOO_LARGE,
            RingError::Claimed(_) => HELIOSTAT_CLAIMED,
            RingError::Mapping(_) => HELIOSTAT_SYSTEM,
            RingError::Corrupt(_) => HELIOSTAT_CORRUPT,
        }
    }
}

impl From<ReserveError> for heliostat_code {
    fn from(error: ReserveError) -> heliostat_code {
        match error {
            ReserveError::Full => HELIOSTAT_FULL,
            ReserveError::TooLarge { .. } => HELIOSTAT_TOO_LARGE,
            ReserveError::Corrupt(_) => HELIOSTAT_CORRUPT,
        }
    }
}

impl From<TakeError> for heliostat_code {
    fn from(error: TakeError) -> heliostat_code {
        match error {
            TakeError::Empty => HELIOSTAT_EMPTY,
            TakeError::Held { .. } => HELIOSTAT_FULL,
            TakeError::Corrupt(_) => HELIOSTAT_CORRUPT,
        }
    }
}

impl From<WaitError> for heliostat_code {
    fn from(error: WaitError) -> heliostat_code {
        match error {
            WaitError::TimedOut => HELIOSTAT_TIMED_OUT,
            WaitError::PeerGone => HELIOSTAT_PEER_GONE,
        }
    }
}

/// The panic boundary: no unwinding ever leaves an `extern "C"` body.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), heliostat_code>) -> heliostat_code {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(Ok(())) => HELIOSTAT_OK,
        Ok(Err(code)) => code,
        Err(_) => HELIOSTAT_PANIC,
    }
}
