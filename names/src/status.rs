//! What the control plane tells of itself, as JSON.

use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::session::record::{Reply, Request};
use heliostat_client::{session, ControlError};
use serde_json::Value;

use crate::kept::Kept;
use crate::NameFault;

/// Longest text believed: far more than a full control plane's.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// How old what was told may be, where a folder is looked at name by name.
const MOMENT: Duration = Duration::from_millis(100);

/// What was told last.
#[derive(Default)]
pub(crate) struct Status(Kept<Value>);

impl Status {
    /// Returns what the control plane tells, a moment old at most.
    pub(crate) fn recent(&self) -> Result<Arc<Value>, NameFault> {
        self.0.of(MOMENT, parsed)
    }

    /// Returns what the control plane tells now.
    pub(crate) fn now(&self) -> Result<Arc<Value>, NameFault> {
        self.0.of(Duration::ZERO, parsed)
    }
}

/// Asks; the text as it came.
pub(crate) fn told() -> Result<String, NameFault> {
    // A session that has ended is noticed here, so that the next one is asked.
    session::check_alive();
    let (reply, fds) = session::ask(&Request::Status, &[])?;
    match (reply, fds.first()) {
        (Reply::Text { bytes }, Some(fd)) if bytes <= TEXT_BYTES_MAX => {
            let text =
                read(fd, bytes as usize).map_err(|errno| NameFault::Broken(errno.to_string()))?;
            String::from_utf8(text).map_err(|error| NameFault::Broken(error.to_string()))
        }
        (reply, _) => Err(ControlError::from(&reply).into()),
    }
}

fn parsed() -> Result<Value, NameFault> {
    serde_json::from_str(&told()?).map_err(|error| NameFault::Broken(error.to_string()))
}

fn read(fd: &impl std::os::fd::AsFd, bytes: usize) -> rustix::io::Result<Vec<u8>> {
    let mut text = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        match rustix::io::pread(fd, &mut text[done..], done as u64)? {
            0 => return Err(rustix::io::Errno::IO),
            count => done += count,
        }
    }
    Ok(text)
}

/// The list that a field is, or none.
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}
