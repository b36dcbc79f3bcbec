//! A log by its place, and the thread that drives it while nobody waits.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use heliostat_backend_log::{
    Appended, DriverThread, Log as Plain, LogError, Options, Position, Reservation,
};
use heliostat_base::event::Event;
use heliostat_base::sync::{AtomicBool, Ordering};

use crate::area::{self, Hold};
use crate::error::{Kind, OpenError};
use crate::make;
use crate::place::Place;

/// A log. Clones are handles of the same one, for any thread; the place is free for others when the
/// last of them, and of what came by it, is gone.
///
/// What an entry needs to become durable while nobody waits for it, a thread does, which the first
/// [`append`](Log::append) starts and which sleeps while there is nothing to do. A log that is used
/// by `append_sync` alone has none.
#[derive(Clone, Debug)]
pub struct Log {
    driven: Arc<Driven>,
}

/// What all handles share.
#[derive(Debug)]
struct Driven {
    log: Plain,
    has_thread: AtomicBool,
    is_closed: AtomicBool,
    thread: OnceLock<DriverThread>,
    /// Last: others may write when the thread is gone.
    _hold: Option<Hold>,
}

impl Log {
    /// Makes a log of so many bytes where there is nothing yet: a file of that size, rounded up to
    /// pages, every byte of which is written once. 40 KiB at least; the headers take 8 KiB of it.
    ///
    /// # Errors
    /// There is something by this name, there is no room, or the kernel refuses. Nothing is left.
    pub fn create(place: impl Into<Place>, bytes: u64) -> Result<Log, OpenError> {
        Self::create_with(place, bytes, Options::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As for `create`.
    pub fn create_with(
        place: impl Into<Place>,
        bytes: u64,
        options: Options,
    ) -> Result<Log, OpenError> {
        let place = place.into();
        let made = match &place {
            Place::File(path) => make::log_in_new_file(path, bytes, options).map(Log::of),
            Place::Area(name) => area::create(name, bytes, options).map(Log::held),
        };
        made.map_err(|why| OpenError::new(&place, why))
    }

    /// Opens a log after whatever happened. One process at a time has it open to write.
    ///
    /// # Errors
    /// There is none; it is in use; it is of another format, was made on another device, or an
    /// acknowledged entry is damaged. Nothing was changed.
    pub fn open(place: impl Into<Place>) -> Result<Log, OpenError> {
        Self::open_with(place, Options::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_with(place: impl Into<Place>, options: Options) -> Result<Log, OpenError> {
        let place = place.into();
        let opened = match &place {
            Place::File(path) => make::log_in_file(path, options).map(Log::of),
            Place::Area(name) => area::open(name, options).map(Log::held),
        };
        opened.map_err(|why| OpenError::new(&place, why))
    }

    /// Opens a log, or makes one of so many bytes where there is nothing.
    ///
    /// # Errors
    /// As for `open` and `create`.
    pub fn open_or_create(place: impl Into<Place>, bytes: u64) -> Result<Log, OpenError> {
        Self::open_or_create_with(place, bytes, Options::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As for `open` and `create`.
    pub fn open_or_create_with(
        place: impl Into<Place>,
        bytes: u64,
        options: Options,
    ) -> Result<Log, OpenError> {
        let place = place.into();
        let opened = Self::open_with(&place, options);
        let has_none = match opened.as_ref().map_err(OpenError::kind) {
            Err(Kind::NotFound) => true,
            // An area that was made for a log, and has none yet.
            Err(Kind::Foreign) => matches!(place, Place::Area(_)),
            _ => false,
        };
        match has_none {
            true => Self::create_with(&place, bytes, options),
            false => opened,
        }
    }

    /// Puts a log that was opened on any device under a thread.
    pub fn of(log: Plain) -> Log {
        Self::around(log, None)
    }

    fn held((log, hold): (Plain, Hold)) -> Log {
        Self::around(log, Some(hold))
    }

    fn around(log: Plain, hold: Option<Hold>) -> Log {
        let driven = Driven {
            log,
            has_thread: AtomicBool::new(true),
            is_closed: AtomicBool::new(false),
            thread: OnceLock::new(),
            _hold: hold,
        };
        Log { driven: Arc::new(driven) }
    }

    /// Has no thread started from now on: who appends waits, syncs or polls now and then.
    #[must_use]
    pub fn without_thread(self) -> Log {
        self.driven.has_thread.store(false, Ordering::Relaxed);
        self
    }

    /// Appends an entry and returns at once: it waits only while the window is full, or while the
    /// device still counts on bytes that were trimmed. What it returns can be waited for, awaited, or
    /// have a function called ([`Appended::then`]); or it is dropped, and `end` tells.
    ///
    /// # Errors
    /// The area is full, the payload too long, or the log has failed or was closed: nothing was
    /// appended.
    pub fn append(&self, payload: &[u8]) -> Result<Appended, LogError> {
        self.drive()?;
        self.driven.log.append(payload)
    }

    /// Appends an entry and has a function called when it is durable, or when it is certain that
    /// nobody will know. It is called by whoever drives the log; it may append, and takes no lock
    /// that is held by somebody who appends or waits.
    ///
    /// # Errors
    /// As for `append`; then it is not called.
    pub fn append_then(
        &self,
        payload: &[u8],
        call: impl FnOnce(Result<Position, LogError>) + Send + 'static,
    ) -> Result<Position, LogError> {
        let appended = self.append(payload)?;
        let position = appended.position();
        appended.then(call);
        Ok(position)
    }

    /// Reserves room for an entry of so many bytes, which its holder fills and commits soon; the
    /// thread makes it durable, as after `append`.
    ///
    /// # Errors
    /// As for `append`.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, LogError> {
        self.drive()?;
        self.driven.log.reserve(bytes)
    }

    /// A descriptor that becomes readable when entries were acknowledged, or the log has failed. All
    /// callers get the same event; it is for one of them to drain, who looks at `end` then.
    ///
    /// # Errors
    /// There is no descriptor, or no thread, left.
    pub fn event(&self) -> Result<Event, LogError> {
        self.drive()?;
        self.driven.log.event()
    }

    /// Lets nobody append any more, waits for what is under way, and writes a checkpoint. A log whose
    /// last handle is dropped does the same, but tells nobody what went wrong.
    ///
    /// # Errors
    /// The log has failed: the next opening finds out which entries are there.
    pub fn close(self) -> Result<(), LogError> {
        self.driven.is_closed.store(true, Ordering::Relaxed);
        self.driven.log.close()
    }

    /// Starts the thread, if there is to be one and is none.
    pub(crate) fn drive(&self) -> Result<(), LogError> {
        let has_thread = self.driven.has_thread.load(Ordering::Relaxed);
        if has_thread && self.driven.thread.get().is_none() {
            let started = DriverThread::start(&self.driven.log)?;
            // Where another thread was quicker this one ends again.
            let _ = self.driven.thread.set(started);
        }
        Ok(())
    }
}

/// Everything else a log does by itself.
impl Deref for Log {
    type Target = Plain;

    fn deref(&self) -> &Plain {
        &self.driven.log
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if !*self.is_closed.get_mut() {
            // Who wants to hear of an error closes it; of one that has failed there is nothing to write.
            let _ = self.log.close();
        }
    }
}
