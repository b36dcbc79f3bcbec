//! Which exception of `heliostat._errors` says what; the words are the stub's.

use std::fmt::Display;
use std::os::fd::RawFd;

use heliostat_abi::code::Code;
use heliostat_backend_pages::track::TrackError;
use heliostat_base::fd::{self, OwnedFd};
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_ring::pins::PinError;
use heliostat_stub_lock::LockError;
use heliostat_stub_log::{Kind, LogError, OpenError, Why};
use heliostat_stub_memory::{MemoryError, SpreadError};
use heliostat_stub_rpc::{NotDelivered, RpcError, Unanswered};
use heliostat_stub_snapshot::queue::QueueError;
use heliostat_stub_snapshot::{
    AttachError, NamedError, PoolError, PublishError, RegionError, SourceError,
};
use heliostat_stub_store::{BeginError, StoreError, Why as No};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::log_entry::LogPosition;

/// The exception `kind` of `heliostat._errors`, saying `text`.
pub fn raise(kind: &str, text: impl Display) -> PyErr {
    let text = text.to_string();
    Python::attach(|py| {
        let made = py.import("heliostat._errors").and_then(|it| it.getattr(kind));
        match made.and_then(|class| class.call1((text.clone(),))) {
            Ok(exception) => PyErr::from_value(exception),
            // A package without its errors is broken; what happened is still said.
            Err(_) => PyRuntimeError::new_err(text),
        }
    })
}

/// Something that is over was used.
pub fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("the {what} is closed"))
}

/// A forked child used what its parent made.
pub fn forked() -> PyErr {
    raise(
        "Forked",
        "this belongs to the process that made it, and this is a fork of that one; make or \
         attach it anew here",
    )
}

/// No name, or no region of that name.
pub fn named(error: &NamedError) -> PyErr {
    let kind = match error {
        NamedError::Name(_) => "InvalidName",
        NamedError::Control(_) => "NoControlPlane",
        NamedError::Refused(Code::NotFound, _) => "NotFound",
        NamedError::Refused(Code::Denied | Code::Revoked, _) => "Denied",
        NamedError::Refused(Code::Full, _) => "Full",
        NamedError::Refused(Code::BadState, _) => "NameTaken",
        NamedError::Refused(..) => "Error",
        NamedError::Memory(error) => return pool(error),
    };
    raise(kind, error)
}

/// Memory of a region could not be made or mapped.
pub fn pool(error: &PoolError) -> PyErr {
    match error {
        PoolError::Memory(_) | PoolError::Bell(_) => raise("MappingFailed", error),
        PoolError::NoTable | PoolError::NoPins | PoolError::NoBell => raise("Corrupt", error),
    }
}

/// As many consumers are attached as there may be.
pub fn no_place() -> PyErr {
    raise("Full", "the region has no place for another consumer")
}

/// A descriptor could not be copied.
pub fn no_descriptor(errno: &Errno) -> PyErr {
    raise("MappingFailed", format_args!("no copy of a descriptor: {errno}"))
}

/// A copy of somebody's descriptor, for us.
pub fn copied(fd: RawFd) -> PyResult<OwnedFd> {
    fd::duplicate(fd).map_err(|errno| no_descriptor(&errno))
}

/// No region.
pub fn region(error: &RegionError) -> PyErr {
    match error {
        RegionError::Shape => raise("InvalidRegion", error),
        RegionError::Memory(error) => pool(error),
        RegionError::Track(error) => track(error),
        RegionError::Remap(_) => raise("Error", error),
    }
}

fn track(error: &TrackError) -> PyErr {
    match error {
        TrackError::Forked => forked(),
        TrackError::Unsupported { .. } => raise("Unsupported", error),
        _ => raise("Error", error),
    }
}

/// No new version.
pub fn publish(error: &PublishError) -> PyErr {
    match error {
        PublishError::Full { .. } => raise("Full", error),
        PublishError::Lost => raise("NoControlPlane", error),
        PublishError::Track(error) => track(error),
        PublishError::Remap(_) => raise("Error", error),
        PublishError::Source(SourceError::OutOfRange(_)) => raise("InvalidRegion", error),
        PublishError::Source(SourceError::Gone) => raise("Gone", error),
        PublishError::Source(SourceError::Unreadable { .. }) => raise("Error", error),
    }
}

/// No slot, or no queue.
pub fn queue(error: &QueueError) -> PyErr {
    match error {
        QueueError::Full { .. } => raise("Full", error),
        QueueError::Lost => raise("NoControlPlane", error),
        QueueError::TooLong(_) | QueueError::Shape => raise("InvalidRegion", error),
        QueueError::Memory(error) => pool(error),
    }
}

/// A region that is spread over nodes did not do it.
pub fn spread(error: &SpreadError) -> PyErr {
    let kind = match error {
        SpreadError::Memory(error) => kind_of_memory(error),
        SpreadError::Part { why, .. } => kind_of_memory(why),
        SpreadError::Range { .. } | SpreadError::Misaligned { .. } => "InvalidRegion",
        SpreadError::Nodes { .. } => return PyValueError::new_err(error.to_string()),
        SpreadError::Taken { .. } => "NameTaken",
        SpreadError::Unfinished { .. } => "Busy",
        SpreadError::Corrupt { .. } => "Corrupt",
        SpreadError::Held { .. } => return PyBufferError::new_err(error.to_string()),
    };
    raise(kind, error)
}

/// A memory region did not do it.
pub fn memory(error: &MemoryError) -> PyErr {
    raise(kind_of_memory(error), error)
}

fn kind_of_memory(error: &MemoryError) -> &'static str {
    match error {
        MemoryError::Name(_) => "InvalidName",
        MemoryError::Size { .. } | MemoryError::Range { .. } | MemoryError::Misaligned { .. } => {
            "InvalidRegion"
        }
        MemoryError::Denied { .. } => "Denied",
        MemoryError::Stale { .. } => "Gone",
        MemoryError::Gone { .. } | MemoryError::Node { .. } | MemoryError::Unreachable { .. } => {
            "NoControlPlane"
        }
        MemoryError::Moving { .. } | MemoryError::InDoubt { .. } | MemoryError::Held { .. } => {
            "Busy"
        }
        MemoryError::Full { .. } => "Full",
        MemoryError::Idle => "Idle",
        MemoryError::Cancelled { .. } => "Cancelled",
        MemoryError::Thread | MemoryError::NotMoved { .. } => "MappingFailed",
        MemoryError::Control(error) => control(error),
        MemoryError::Corrupt | MemoryError::Link(_) => "Corrupt",
        MemoryError::Mapping(_) | MemoryError::Event(_) => "MappingFailed",
        MemoryError::Server { .. } | MemoryError::TimedOut => "Error",
    }
}

/// A lock was not acquired, or a barrier not passed.
pub fn lock(error: &LockError) -> PyErr {
    let kind = match error {
        LockError::Name(_) => "InvalidName",
        LockError::Count { .. } => return PyValueError::new_err(error.to_string()),
        LockError::Shape => "NameTaken",
        LockError::Forked => return forked(),
        LockError::Broken { .. } => "BrokenBarrier",
        LockError::Gone | LockError::Unreachable { .. } => "NoControlPlane",
        LockError::Control(error) => control(error),
        LockError::Corrupt => "Corrupt",
        LockError::Bell(_) => "MappingFailed",
    };
    raise(kind, error)
}

/// A log did not do it. The exception of a damaged entry has its position.
pub fn log(py: Python<'_>, error: &LogError) -> PyErr {
    let raised = of_log(error.into(), error);
    if let LogError::Damaged { position, .. } = error {
        // Without it, the text says it.
        let _ = raised.value(py).setattr("position", LogPosition::from(*position));
    }
    raised
}

/// A log could not be made or opened.
pub fn log_open(py: Python<'_>, error: &OpenError) -> PyErr {
    let raised = of_log(error.kind(), error);
    if let Why::Log(LogError::Damaged { position, .. }) = &error.why {
        // As above.
        let _ = raised.value(py).setattr("position", LogPosition::from(*position));
    }
    raised
}

fn of_log(kind: Kind, text: impl Display) -> PyErr {
    let kind = match kind {
        Kind::Closed => return closed("log"),
        Kind::Full | Kind::Limit => "Full",
        Kind::TooLong => "TooLong",
        Kind::Trimmed => "Trimmed",
        Kind::NoEntry => "NoEntry",
        Kind::Damaged => "Damaged",
        Kind::Device => "DeviceFailed",
        Kind::InUse => "InUse",
        Kind::Denied => "Denied",
        Kind::NotFound => "NotFound",
        Kind::Exists => "NameTaken",
        Kind::Foreign => "NotALog",
        Kind::Newer | Kind::IsQueue => "Unsupported",
        Kind::WrongDevice => "WrongDevice",
        Kind::NoName => "InvalidName",
        Kind::NoControl => "NoControlPlane",
        _ => "MappingFailed",
    };
    raise(kind, text)
}

/// An area was not opened, or did not do it.
pub fn store(error: &StoreError) -> PyErr {
    let kind = match error {
        StoreError::Name(_) => "InvalidName",
        StoreError::Operation(BeginError::Full { .. }) => "Full",
        StoreError::Operation(_) => "InvalidRegion",
        StoreError::InUse => "InUse",
        StoreError::NotDone(no) => of_no(no.why),
        error if error.is_denied() => "Denied",
        StoreError::Device(_) => "DeviceFailed",
        StoreError::Gone => "NoControlPlane",
        StoreError::Control(error) => control(error),
        StoreError::Corrupt | StoreError::Link(_) => "Corrupt",
        StoreError::NotDriven(_) | StoreError::Mapping(_) => "MappingFailed",
    };
    raise(kind, error)
}

fn of_no(why: No) -> &'static str {
    match why {
        No::NoStore | No::NotFound | No::NoHandle => "NotFound",
        No::NameTaken | No::HasStore => "NameTaken",
        No::Denied => "Denied",
        No::Held | No::InUse | No::HasAlone | No::HasWriters => "InUse",
        No::Opening | No::Busy | No::Zeroing | No::Later => "Busy",
        No::Ending => "Gone",
        No::Size | No::Unfit => "InvalidRegion",
        No::NoRoom | No::Fragmented | No::TooMany => "Full",
        No::NotDirect => "Unsupported",
        No::DeviceFailed | No::NotOpened => "DeviceFailed",
    }
}

/// A call has no reply, or a function is not found or not served. The exception says whether the function
/// may have run.
pub fn rpc(error: &RpcError) -> PyErr {
    let kind = match error.kind() {
        RpcError::Name(_) => "InvalidName",
        RpcError::TooLong { .. } => "TooLong",
        RpcError::Busy { .. } => "Full",
        RpcError::NotDelivered(NotDelivered::Gone) => "NotDeliveredGone",
        RpcError::NotDelivered(NotDelivered::TimedOut) => "NotDeliveredTimedOut",
        RpcError::NotDelivered(NotDelivered::Cancelled) => "NotDeliveredCancelled",
        RpcError::NotDelivered(NotDelivered::Full) => "NotDeliveredFull",
        RpcError::NotDelivered(NotDelivered::NodeDown) => "NotDeliveredNodeDown",
        RpcError::Unanswered(Unanswered::TimedOut) => "UnansweredTimedOut",
        RpcError::Unanswered(Unanswered::Cancelled) => "UnansweredCancelled",
        RpcError::Unanswered(Unanswered::ServerEnded) => "UnansweredServerEnded",
        RpcError::Unanswered(Unanswered::ControlGone) => "UnansweredControlGone",
        RpcError::Unanswered(Unanswered::NodeLost) => "UnansweredNodeLost",
        RpcError::Unanswered(Unanswered::NodeBroken) => "UnansweredNodeBroken",
        RpcError::Failed(text) => return tell_may_have_run(raise("Failed", text)),
        RpcError::NotServing | RpcError::NobodyWaits => "Gone",
        RpcError::Control(error) => control(error),
        RpcError::Corrupt | RpcError::Link(_) => "Corrupt",
        RpcError::Mapping(_) => "MappingFailed",
        // The kind of an error is no error that names a node.
        RpcError::Server(_) | RpcError::OnNode { .. } => "Error",
    };
    match error.may_have_run() {
        true => tell_may_have_run(raise(kind, error)),
        false => raise(kind, error),
    }
}

fn tell_may_have_run(raised: PyErr) -> PyErr {
    // An exception without a place for it says so in its text.
    let _ = Python::attach(|py| raised.value(py).setattr("may_have_run", true));
    raised
}

fn control(error: &ControlError) -> &'static str {
    match error {
        ControlError::Refused { code, .. } => match code {
            Code::NotFound => "NotFound",
            Code::Denied | Code::Revoked | Code::Unwilling => "Denied",
            Code::Full => "Full",
            Code::BadState => "NameTaken",
            Code::Stale => "Gone",
            Code::Unreachable => "NoControlPlane",
            _ => "Error",
        },
        ControlError::Malformed(_) | ControlError::Unexpected => "Corrupt",
        ControlError::NoDescriptors => "MappingFailed",
        _ => "NoControlPlane",
    }
}

/// No version to read.
pub fn attach(error: &AttachError) -> PyErr {
    let kind = match error {
        AttachError::Pin(why) => match why {
            PinError::Gone => "Gone",
            PinError::Busy => "Busy",
            PinError::NoRoom => "Full",
        },
        AttachError::Corrupt => "Corrupt",
        AttachError::Memory(_) => "MappingFailed",
    };
    raise(kind, error)
}
