//! Why a log could not be opened, and what kind of error something is.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_backend_block::OpenError as DeviceError;
use heliostat_backend_log::format::HeaderError;
use heliostat_backend_log::LogError;
use heliostat_client::ControlError;
use heliostat_stub_lock::LockError;
use heliostat_stub_store::{StoreError, Why as Refusal};

use crate::Place;

/// What the kernel says of a name that is taken.
pub(crate) const EEXIST: i32 = 17;

/// A log that could not be made or opened. Nothing was changed, but where `Why` says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError {
    /// Where.
    pub place: Place,
    /// Why not.
    pub why: Why,
}

/// Why a log could not be made or opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The file or disk cannot be used.
    Device(DeviceError),
    /// What lies there is no log, another one, or damaged.
    Log(LogError),
    /// The store, or the control plane, says no.
    Store(Box<StoreError>),
    /// Whether another process writes the log cannot be told.
    Lock(LockError),
    /// There is something by this name already, so no log is made there.
    Exists,
    /// The kernel refused.
    System {
        /// What was asked for.
        call: &'static str,
        /// What it answered.
        errno: i32,
    },
}

/// What kind of error something is: what programs in every language tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// The log was closed.
    Closed,
    /// The area is full. What was acknowledged stays; trimming makes room.
    Full,
    /// Longer than this log takes.
    TooLong,
    /// The entry was trimmed.
    Trimmed,
    /// No entry begins there, or none that is acknowledged; an item that is not handed out.
    NoEntry,
    /// Bytes that were acknowledged are not there any more.
    Damaged,
    /// The device fails: the log has stopped, or cannot be read.
    Device,
    /// Another process has it open to write.
    InUse,
    /// The kernel, or a rule, does not allow it.
    Denied,
    /// There is nothing there.
    NotFound,
    /// There is something already.
    Exists,
    /// No log lies there.
    Foreign,
    /// A log of a later format.
    Newer,
    /// A queue's log is not trimmed.
    IsQueue,
    /// No device for a log, or not the one that this log was made on: its size or sector differs.
    WrongDevice,
    /// As many as may be are handed out, or reserved.
    Limit,
    /// The text is no name of an area.
    NoName,
    /// There is no control plane, it has no store, or it does not answer.
    NoControl,
    /// The system has no memory, thread or descriptor left, or does not do what is asked.
    System,
}

impl OpenError {
    pub(crate) fn new(place: &Place, why: impl Into<Why>) -> OpenError {
        OpenError { place: place.clone(), why: why.into() }
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        match &self.why {
            Why::Device(DeviceError::InUse) => Kind::InUse,
            Why::Device(DeviceError::NotADevice | DeviceError::Empty) => Kind::WrongDevice,
            Why::Device(DeviceError::Memory) => Kind::System,
            Why::Device(DeviceError::System { errno, .. }) | Why::System { errno, .. } => {
                kind_of_errno(*errno)
            }
            Why::Log(error) => error.into(),
            Why::Store(error) => kind_of_store(error),
            Why::Lock(error) => kind_of_lock(error),
            Why::Exists => Kind::Exists,
        }
    }
}

fn kind_of_store(error: &StoreError) -> Kind {
    match error {
        StoreError::Name(_) => Kind::NoName,
        StoreError::NotDone(not_done) => match not_done.why {
            Refusal::NotFound | Refusal::Ending => Kind::NotFound,
            Refusal::NameTaken => Kind::Exists,
            Refusal::Denied => Kind::Denied,
            Refusal::NoRoom | Refusal::Fragmented | Refusal::TooMany | Refusal::Zeroing => {
                Kind::Full
            }
            Refusal::Size | Refusal::Unfit => Kind::WrongDevice,
            Refusal::NoStore | Refusal::Opening => Kind::NoControl,
            Refusal::DeviceFailed => Kind::Device,
            _ => Kind::System,
        },
        StoreError::Device(_) => Kind::Device,
        StoreError::Gone => Kind::NoControl,
        StoreError::Control(error) => kind_of_control(error),
        _ => Kind::System,
    }
}

fn kind_of_lock(error: &LockError) -> Kind {
    match error {
        LockError::Name(_) => Kind::NoName,
        LockError::Control(error) => kind_of_control(error),
        LockError::Gone | LockError::Unreachable { .. } => Kind::NoControl,
        _ => Kind::System,
    }
}

fn kind_of_control(error: &ControlError) -> Kind {
    match error {
        ControlError::Refused { code: Code::NotFound, .. } => Kind::NotFound,
        ControlError::Refused { code: Code::Full, .. } => Kind::Full,
        ControlError::Refused { .. } => Kind::Denied,
        _ => Kind::NoControl,
    }
}

/// What the kernel's answers to an opening mean.
fn kind_of_errno(errno: i32) -> Kind {
    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const EIO: i32 = 5;
    const EACCES: i32 = 13;
    const ENOTDIR: i32 = 20;
    const EROFS: i32 = 30;
    match errno {
        EPERM | EACCES | EROFS => Kind::Denied,
        ENOENT | ENOTDIR => Kind::NotFound,
        EEXIST => Kind::Exists,
        EIO => Kind::Device,
        _ => Kind::System,
    }
}

impl From<&LogError> for Kind {
    fn from(error: &LogError) -> Kind {
        match error {
            LogError::Closed => Kind::Closed,
            LogError::Failed(_) | LogError::Refused(_) | LogError::Unreadable { .. } => {
                Kind::Device
            }
            LogError::Full { .. } => Kind::Full,
            LogError::TooLong { .. } | LogError::Unfilled { .. } => Kind::TooLong,
            LogError::Reservations { .. } | LogError::Taken { .. } => Kind::Limit,
            LogError::Damaged { .. } => Kind::Damaged,
            LogError::Trimmed { .. } => Kind::Trimmed,
            LogError::Beyond { .. } | LogError::NotAnEntry { .. } | LogError::NotTaken { .. } => {
                Kind::NoEntry
            }
            LogError::Area { .. } => Kind::WrongDevice,
            LogError::NoLog(HeaderError::Foreign) | LogError::Replaced => Kind::Foreign,
            LogError::NoLog(HeaderError::Version { .. }) => Kind::Newer,
            LogError::NoLog(_) => Kind::Damaged,
            LogError::Exists => Kind::Exists,
            LogError::WornOut => Kind::Full,
            LogError::IsQueue => Kind::IsQueue,
            LogError::Memory(_) | LogError::System { .. } => Kind::System,
        }
    }
}

impl From<DeviceError> for Why {
    fn from(error: DeviceError) -> Why {
        Why::Device(error)
    }
}

impl From<LogError> for Why {
    fn from(error: LogError) -> Why {
        match error {
            LogError::Exists => Why::Exists,
            error => Why::Log(error),
        }
    }
}

impl From<StoreError> for Why {
    fn from(error: StoreError) -> Why {
        let is_in_use = |why| matches!(why, Refusal::HasAlone | Refusal::HasWriters);
        match &error {
            StoreError::NotDone(no) if is_in_use(no.why) => Why::Device(DeviceError::InUse),
            _ => Why::Store(Box::new(error)),
        }
    }
}

impl From<LockError> for Why {
    fn from(error: LockError) -> Why {
        Why::Lock(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Device(DeviceError::InUse) => f.write_str(
                "in use: another process has it open to write; it may be read meanwhile",
            ),
            Why::Device(error) => error.fmt(f),
            Why::Log(error) => error.fmt(f),
            Why::Store(error) => error.fmt(f),
            Why::Lock(error) => write!(f, "the lock of its writer: {error}"),
            Why::Exists => {
                f.write_str("there is something by this name; open it, or remove it first")
            }
            Why::System { call, errno } => {
                write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use heliostat_stub_store::NotDone;

    use super::*;

    #[test]
    fn an_area_that_others_write_is_in_use() {
        for why in [Refusal::HasWriters, Refusal::HasAlone] {
            let told = Why::from(StoreError::NotDone(NotDone::of(why, 0, 1)));
            assert_eq!(told, Why::Device(DeviceError::InUse));
        }
        let full = StoreError::NotDone(NotDone::of(Refusal::NoRoom, 2, 1));
        assert_eq!(Why::from(full.clone()), Why::Store(Box::new(full)));
    }
}
