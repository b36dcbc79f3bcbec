//! Reading a log by its place while another process may have it open to write.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use heliostat_backend_log::{LogError, LogReader as Plain};
use rustix::io::Errno;

use crate::area;
use crate::change::Changes;
use crate::error::{OpenError, Why};
use crate::make;
use crate::place::Place;

/// How long a reader of an area waits before it looks again.
const LOOK: Duration = Duration::from_millis(100);

/// Reads a log beside its writer, if there is one, and changes nothing of it. For one thread.
#[derive(Debug)]
pub struct LogReader {
    reader: Plain,
    /// None of an area, of whose device the kernel tells nothing.
    changes: Option<Changes>,
}

impl LogReader {
    /// Opens a log to be read, at its first entry.
    ///
    /// # Errors
    /// There is none, it is of another format, or it may not be read.
    pub fn open(place: impl Into<Place>) -> Result<LogReader, OpenError> {
        let place = place.into();
        Self::opened(&place).map_err(|why| OpenError::new(&place, why))
    }

    fn opened(place: &Place) -> Result<LogReader, Why> {
        // The watch before the first look, so that no write is missed.
        let (changes, (device, area)) = match place {
            Place::File(path) => (Some(changes_of(path)?), make::whole_to_read(path)?),
            Place::Area(name) => (None, area::to_read(name)?),
        };
        Ok(LogReader { reader: Plain::open(device, area)?, changes })
    }

    /// Waits until the log was written since the last wait, at most so long; whether it was. Who has
    /// read to the end waits here and reads on. Of an area nobody tells, so a tenth of a second is
    /// waited, and it may have been.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, LogError> {
        let Some(changes) = &self.changes else {
            std::thread::sleep(timeout.unwrap_or(LOOK).min(LOOK));
            return Ok(timeout.is_none_or(|timeout| timeout >= LOOK));
        };
        let waited = changes.wait(timeout);
        waited.map_err(|errno| LogError::System { errno: errno.raw_os_error() })
    }
}

fn changes_of(path: &Path) -> Result<Changes, Why> {
    let told = |errno: Errno| Why::System { call: "open", errno: errno.raw_os_error() };
    Changes::of(path).map_err(told)
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
