//! Why a name could not be listed, opened, read or written.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_backend_log::LogError;
use heliostat_client::ControlError;
use heliostat_stub_lock::LockError;
use heliostat_stub_memory::MemoryError;
use heliostat_stub_rpc::RpcError;
use heliostat_stub_snapshot::{AttachError, NamedError, PinError};
use heliostat_stub_store::{StoreError, Why};

/// What went wrong, and on which side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameFault {
    /// Nothing has that name, or nothing that this user may see.
    NotFound,
    /// It was there when it was looked at, and is gone: look again.
    Stale,
    /// Ours: a folder was to be read, or a file to be listed.
    Folder,
    /// Ours: a file was to be listed.
    NoFolder,
    /// This user may not do that with it.
    Denied,
    /// Nobody may write it.
    ReadOnly,
    /// It does not get that length.
    Length {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// Behind its last byte nothing can be written.
    End,
    /// A limit is reached.
    Full(String),
    /// The store has no room for it.
    NoRoom(String),
    /// It is of a kind that has no bytes here.
    Unreadable(String),
    /// Nothing was heard in time.
    Late,
    /// The control plane is gone, or who holds the bytes; the same may succeed later.
    Broken(String),
}

impl NameFault {
    /// Returns the error number by which a file system says so.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::Stale => libc::ESTALE,
            Self::Folder => libc::EISDIR,
            Self::NoFolder => libc::ENOTDIR,
            Self::Denied => libc::EACCES,
            Self::ReadOnly => libc::EROFS,
            Self::Length { .. } => libc::EINVAL,
            Self::End | Self::NoRoom(_) => libc::ENOSPC,
            Self::Full(_) => libc::ENFILE,
            Self::Unreadable(_) => libc::EOPNOTSUPP,
            Self::Late | Self::Broken(_) => libc::EIO,
        }
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("there is no such name that you may see"),
            Self::Stale => f.write_str("it is gone since it was looked at; look again"),
            Self::Folder => f.write_str("it is a folder"),
            Self::NoFolder => f.write_str("it is no folder"),
            Self::Denied => f.write_str("a rule, or its owner, does not let you"),
            Self::ReadOnly => f.write_str("nobody may write it"),
            Self::Length { wanted, found } => {
                write!(f, "it has {found} bytes and does not get {wanted}")
            }
            Self::End => f.write_str("nothing can be written behind its last byte"),
            Self::Late => f.write_str("nothing was heard in time"),
            Self::Full(why) | Self::NoRoom(why) | Self::Unreadable(why) | Self::Broken(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for NameFault {}

/// What a refusal means to who looked something up by name.
fn of_code(code: Code, whole: &dyn fmt::Display) -> NameFault {
    match code {
        Code::NotFound | Code::Moved => NameFault::NotFound,
        Code::Denied | Code::Unwilling | Code::Revoked => NameFault::Denied,
        Code::Stale => NameFault::Stale,
        Code::Full => NameFault::Full(whole.to_string()),
        _ => NameFault::Broken(whole.to_string()),
    }
}

impl From<ControlError> for NameFault {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Refused { code, .. } => of_code(code, &error),
            ControlError::NoDescriptors => Self::Full(error.to_string()),
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl From<MemoryError> for NameFault {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Name(_) => Self::NotFound,
            MemoryError::Stale { .. } => Self::Stale,
            MemoryError::Denied { .. } => Self::Denied,
            MemoryError::TimedOut | MemoryError::Cancelled { .. } => Self::Late,
            MemoryError::Control(error) => error.into(),
            MemoryError::Size { bytes, least, .. } => Self::Length { wanted: bytes, found: least },
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl From<LockError> for NameFault {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Name(_) => Self::NotFound,
            LockError::Control(error) => error.into(),
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl From<RpcError> for NameFault {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Name(_) => Self::NotFound,
            RpcError::Control(error) => error.into(),
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl From<NamedError> for NameFault {
    fn from(error: NamedError) -> Self {
        match error {
            NamedError::Name(_) => Self::NotFound,
            NamedError::Control(error) => error.into(),
            NamedError::Refused(code, _) => of_code(code, &error),
            // A queue (docs/queue.md) has a name of the same kind, and no versions.
            NamedError::Memory(_) => Self::Unreadable(error.to_string()),
        }
    }
}

impl From<AttachError> for NameFault {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Pin(PinError::Gone) => Self::Stale,
            AttachError::Pin(PinError::NoRoom) => Self::Full(error.to_string()),
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl From<StoreError> for NameFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Name(_) => Self::NotFound,
            StoreError::Control(error) => error.into(),
            StoreError::NotDone(not_done) => match not_done.why {
                Why::NotFound => Self::NotFound,
                Why::Denied => Self::Denied,
                Why::Size => Self::Length { wanted: not_done.wanted, found: not_done.found },
                Why::NoRoom | Why::Fragmented => Self::NoRoom(not_done.to_string()),
                _ => Self::Broken(not_done.to_string()),
            },
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl From<LogError> for NameFault {
    fn from(error: LogError) -> Self {
        match error {
            LogError::NoLog(_) => Self::Unreadable(error.to_string()),
            _ => Self::Broken(error.to_string()),
        }
    }
}
