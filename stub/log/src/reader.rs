//! Reading a log by its place while another process may have it open to write.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use heliostat_backend_log::{LogError, LogReader as Plain};

use crate::change::Changes;
use crate::error::{OpenError, Why};
use crate::make;
use crate::place::Place;

/// Reads a log beside its writer, if there is one, and changes nothing of it. For one thread.
#[derive(Debug)]
pub struct LogReader {
    reader: Plain,
    changes: Changes,
}

impl LogReader {
    /// Opens a log to be read, at its first entry.
    ///
    /// # Errors
    /// There is none, it is of another format, or it may not be read.
    pub fn open(place: impl Into<Place>) -> Result<LogReader, OpenError> {
        let place = place.into();
        let Place::File(path) = &place else {
            return Err(crate::place::no_store(&place));
        };
        let told = |why| OpenError::new(&place, why);
        // Before the first look, so that no write is missed.
        let changes = Changes::of(path)
            .map_err(|errno| told(Why::System { call: "open", errno: errno.raw_os_error() }))?;
        let (device, area) = make::whole_to_read(path).map_err(|error| told(error.into()))?;
        let reader = Plain::open(device, area).map_err(|error| told(error.into()))?;
        Ok(LogReader { reader, changes })
    }

    /// Waits until the log was written since the last wait, at most so long; whether it was. Who has
    /// read to the end waits here and reads on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, LogError> {
        let waited = self.changes.wait(timeout);
        waited.map_err(|errno| LogError::System { errno: errno.raw_os_error() })
    }
}

/// Everything else a reader does by itself.
impl Deref for LogReader {
    type Target = Plain;

    fn deref(&self) -> &Plain {
        &self.reader
    }
}

impl DerefMut for LogReader {
    fn deref_mut(&mut self) -> &mut Plain {
        &mut self.reader
    }
}
