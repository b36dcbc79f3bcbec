//! Result codes: numbered by hand, never reused.

use heliostat_abi::code::Code;
use heliostat_backend_pages::track::TrackError;
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_stub_file::DelegatedError;
use heliostat_stub_lock::LockError;
use heliostat_stub_memory::MemoryError;
use heliostat_stub_snapshot::{AttachError, NamedError, PublishError, RegionError};

use ::heliostat_ring::pins::PinError;
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
    /// The other side broke the protocol; or an entry of a log is damaged.
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
    /// An argument is outside its limits, or a name is none.
    HELIOSTAT_INVALID = -11,
    /// No region has that name now, or the region has no such version, or no longer.
    HELIOSTAT_NOT_FOUND = -12,
    /// No rule allows it.
    HELIOSTAT_DENIED = -13,
    /// The control plane is not there, or did not answer.
    HELIOSTAT_NO_CONTROL = -14,
    /// The producer has ended the region.
    HELIOSTAT_ENDED = -15,
    /// The kernel or a sandbox does not allow the engine that was asked for.
    HELIOSTAT_UNSUPPORTED = -16,
    /// The handle was made before a fork, in the parent.
    HELIOSTAT_FORKED = -17,
    /// A living producer has that name; or there is a file by it, or another has the lock.
    HELIOSTAT_TAKEN = -18,
    /// The file was opened in an earlier session: open it again. Or the memory region is gone.
    HELIOSTAT_STALE = -19,
    /// The operation was given up; it may have been done in part.
    HELIOSTAT_CANCELLED = -20,
    /// The function that was called says no.
    HELIOSTAT_FAILED = -21,
    /// The barrier is broken until somebody resets it: a participant died or gave up.
    HELIOSTAT_BROKEN = -30,
    /// The device has failed: what was not acknowledged may be there or not.
    HELIOSTAT_DEVICE = -31,
    /// Another process has it open to write.
    HELIOSTAT_IN_USE = -32,
    /// What lies there is no log.
    HELIOSTAT_FOREIGN = -33,
    /// No device for a log, or not the one that this log was made on.
    HELIOSTAT_WRONG_DEVICE = -34,
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

impl From<&TrackError> for heliostat_code {
    fn from(error: &TrackError) -> heliostat_code {
        match error {
            TrackError::Unsupported { .. } => HELIOSTAT_UNSUPPORTED,
            TrackError::Forked => HELIOSTAT_FORKED,
            _ => HELIOSTAT_SYSTEM,
        }
    }
}

impl From<&RegionError> for heliostat_code {
    fn from(error: &RegionError) -> heliostat_code {
        match error {
            RegionError::Shape => HELIOSTAT_INVALID,
            RegionError::Track(error) => error.into(),
            _ => HELIOSTAT_SYSTEM,
        }
    }
}

impl From<&PublishError> for heliostat_code {
    fn from(error: &PublishError) -> heliostat_code {
        match error {
            PublishError::Full { .. } => HELIOSTAT_FULL,
            PublishError::Lost => HELIOSTAT_NO_CONTROL,
            PublishError::Track(error) => error.into(),
            _ => HELIOSTAT_SYSTEM,
        }
    }
}

impl From<&AttachError> for heliostat_code {
    fn from(error: &AttachError) -> heliostat_code {
        match error {
            AttachError::Pin(PinError::Gone) => HELIOSTAT_NOT_FOUND,
            AttachError::Pin(PinError::Busy) => HELIOSTAT_EMPTY,
            AttachError::Pin(PinError::NoRoom) => HELIOSTAT_FULL,
            AttachError::Corrupt => HELIOSTAT_CORRUPT,
            AttachError::Memory(_) => HELIOSTAT_SYSTEM,
        }
    }
}

impl From<&NamedError> for heliostat_code {
    fn from(error: &NamedError) -> heliostat_code {
        match error {
            NamedError::Name(_) => HELIOSTAT_INVALID,
            NamedError::Control(_) => HELIOSTAT_NO_CONTROL,
            NamedError::Refused(Code::NotFound, _) => HELIOSTAT_NOT_FOUND,
            NamedError::Refused(Code::BadState, _) => HELIOSTAT_TAKEN,
            NamedError::Refused(Code::Full, _) => HELIOSTAT_FULL,
            NamedError::Refused(..) => HELIOSTAT_DENIED,
            NamedError::Memory(_) => HELIOSTAT_SYSTEM,
        }
    }
}

impl From<&DelegatedError> for heliostat_code {
    fn from(error: &DelegatedError) -> heliostat_code {
        match error {
            DelegatedError::Control(_) => HELIOSTAT_NO_CONTROL,
            DelegatedError::Refused(Code::BadState, _) => HELIOSTAT_TAKEN,
            DelegatedError::Refused(Code::Full, _) => HELIOSTAT_FULL,
            DelegatedError::Refused(..) => HELIOSTAT_DENIED,
            DelegatedError::Memory(_) | DelegatedError::Ring(_) => HELIOSTAT_SYSTEM,
            DelegatedError::Corrupt => HELIOSTAT_CORRUPT,
            DelegatedError::Gone { .. } => HELIOSTAT_PEER_GONE,
            DelegatedError::Stale => HELIOSTAT_STALE,
            DelegatedError::Tag | DelegatedError::Window(_) => HELIOSTAT_INVALID,
            DelegatedError::Idle => HELIOSTAT_EMPTY,
            DelegatedError::TimedOut => HELIOSTAT_TIMED_OUT,
            DelegatedError::File(errno) => of_file(*errno),
        }
    }
}

impl From<&MemoryError> for heliostat_code {
    fn from(error: &MemoryError) -> heliostat_code {
        match error {
            MemoryError::Name(_)
            | MemoryError::Size { .. }
            | MemoryError::Range { .. }
            | MemoryError::Misaligned { .. } => HELIOSTAT_INVALID,
            MemoryError::Denied { .. } => HELIOSTAT_DENIED,
            MemoryError::Stale { .. } => HELIOSTAT_STALE,
            MemoryError::Gone { .. } | MemoryError::Node { .. } => HELIOSTAT_PEER_GONE,
            MemoryError::Unreachable { .. } => HELIOSTAT_NO_CONTROL,
            MemoryError::Moving { .. } | MemoryError::InDoubt { .. } => HELIOSTAT_TIMED_OUT,
            MemoryError::Held { .. } => HELIOSTAT_TAKEN,
            MemoryError::Control(ControlError::Refused { code, .. }) => of_refusal(*code),
            MemoryError::Control(_) => HELIOSTAT_NO_CONTROL,
            MemoryError::Corrupt | MemoryError::Link(_) => HELIOSTAT_CORRUPT,
            MemoryError::Cancelled { .. } => HELIOSTAT_CANCELLED,
            MemoryError::Full { .. } => HELIOSTAT_FULL,
            MemoryError::Idle => HELIOSTAT_EMPTY,
            MemoryError::TimedOut => HELIOSTAT_TIMED_OUT,
            _ => HELIOSTAT_SYSTEM,
        }
    }
}

impl From<&LockError> for heliostat_code {
    fn from(error: &LockError) -> heliostat_code {
        match error {
            LockError::Name(_) | LockError::Count { .. } => HELIOSTAT_INVALID,
            LockError::Shape => HELIOSTAT_TAKEN,
            LockError::Forked => HELIOSTAT_FORKED,
            LockError::Broken { .. } => HELIOSTAT_BROKEN,
            LockError::Gone => HELIOSTAT_PEER_GONE,
            LockError::Unreachable { may_have_happened: true, .. } => HELIOSTAT_PEER_GONE,
            LockError::Unreachable { may_have_happened: false, .. } => HELIOSTAT_NO_CONTROL,
            LockError::Control(ControlError::Refused { code, .. }) => of_refusal(*code),
            LockError::Control(_) => HELIOSTAT_NO_CONTROL,
            LockError::Corrupt => HELIOSTAT_CORRUPT,
            LockError::Bell(_) => HELIOSTAT_SYSTEM,
        }
    }
}

/// What an answer of the control plane means.
pub(crate) fn of_control(error: &ControlError) -> heliostat_code {
    match error {
        ControlError::Refused { code, .. } => of_refusal(*code),
        _ => HELIOSTAT_NO_CONTROL,
    }
}

fn of_refusal(code: Code) -> heliostat_code {
    match code {
        Code::NotFound => HELIOSTAT_NOT_FOUND,
        Code::Full => HELIOSTAT_FULL,
        Code::BadState => HELIOSTAT_TAKEN,
        Code::Stale => HELIOSTAT_STALE,
        Code::BadRecord => HELIOSTAT_INVALID,
        _ => HELIOSTAT_DENIED,
    }
}

fn of_file(errno: Errno) -> heliostat_code {
    const ENOENT: i32 = 2;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;
    const EOPNOTSUPP: i32 = 95;
    // A name that is there, and a lock that another has.
    const EEXIST: i32 = 17;
    const EAGAIN: i32 = 11;
    const ETIMEDOUT: i32 = 110;
    match errno.0 {
        ENOENT => HELIOSTAT_NOT_FOUND,
        EACCES => HELIOSTAT_DENIED,
        EEXIST | EAGAIN => HELIOSTAT_TAKEN,
        ETIMEDOUT => HELIOSTAT_TIMED_OUT,
        EINVAL => HELIOSTAT_INVALID,
        EOPNOTSUPP => HELIOSTAT_UNSUPPORTED,
        _ => HELIOSTAT_SYSTEM,
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
