//! Delegated operations: batches to the control plane's server loop, and what comes back.
//!
//! A program that says itself which bytes it wants, and has other things to do meanwhile. It makes a
//! window, has files opened, submits operations whose pieces are places in the window, and takes
//! their completions in whatever order they come.
//!
//! ```text
//! start -> open, show -> submit ... wait, reap -> close        everything again after `Gone`
//! ```
//!
//! *Hot* (`submit`, `reap`): no system call unless the server sleeps or this program reads by itself
//! (`read_directly`), no allocation. `wait` spins a little and then sleeps on the ring's bell. The
//! protocol is in `docs/delegated.md`.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod delegation;
mod error;
mod files;
mod gathered;
mod joint;
mod kept;
mod names;
mod own;
mod own_names;
mod record;
mod waits;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;

use heliostat_abi::file::delegated::{Completion, OpKind, Operation, Pieces, DEPTH_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;

use delegation::Terms;
pub use error::DelegatedError;
use gathered::Gathered;
pub use heliostat_abi::file::delegated::{
    mode, DirectoryEntries, Facts, Piece, Way, BUFFERED, CREATE, DIRECT, DIRECTORY, EXCLUSIVE,
    READ, TRUNCATE, WRITE,
};
use heliostat_stub_link::ServerConnection;
pub use joint::{JointSession, Submitter, MEMBERS_MAX};
use kept::KeptCompletions;
pub use kept::TAG_MAX;
pub use names::{DirectoryItem, LockKind, LockWait};
use own::OwnReads;

/// A file that the server has open. It means nothing to another run of the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    object: ObjectId,
    epoch: u64,
}

impl File {
    /// The same as three numbers, for bindings to other languages: index, generation, epoch.
    pub fn to_parts(self) -> (u32, u32, u64) {
        (self.object.index, self.object.generation, self.epoch)
    }

    /// A file that `to_parts` took apart. Any other numbers name a file that is refused, since it
    /// is closed or stale, or another file of this very session.
    pub fn from_parts((index, generation, epoch): (u32, u32, u64)) -> File {
        File { object: ObjectId { index, generation }, epoch }
    }
}

/// One operation on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Any but Open, whose completion says more than a tag, and Cancel.
    pub kind: OpKind,
    /// With which file; any for kinds that are about names.
    pub file: File,
    /// Where in it, in bytes; of Readdir a cookie.
    pub offset: u64,
    /// Bits that the kind knows, or the length of Truncate (docs/delegated.md); else 0.
    pub argument: u64,
    /// Where in the window; names among them lie there until the operation has completed.
    pub pieces: Pieces,
    /// Comes back with the completion; at most [`TAG_MAX`].
    pub tag: u64,
    /// Microseconds until it ends with ETIMEDOUT; 0 for never.
    pub timeout_us: u32,
}

/// A session with the server loop. One thread at a time; any number of operations under way.
pub struct Delegated {
    window: Arc<SharedMapping>,
    window_fd: OwnedFd,
    gathered: Gathered,
    server: Option<ServerConnection>,
    terms: Terms,
    own: OwnReads,
    /// Reads of `own` that the server has to do over, and its ring had no room for.
    again: VecDeque<Operation>,
    /// The last completion was one of `own`: the server's are looked for first.
    own_was_last: bool,
    kept: KeptCompletions,
    under_way: usize,
}

impl Delegated {
    /// A session with a window of `window_bytes` (whole pages), all zero. Asks the control plane,
    /// where `session::configure` or `heliostat run` has said that it is.
    ///
    /// # Errors
    /// No control plane, delegated operations switched off, or a limit; nothing is left behind.
    pub fn start(window_bytes: usize) -> Result<Delegated, DelegatedError> {
        let (window_fd, window) = window::create(window_bytes)?;
        let mut session = Delegated {
            window,
            window_fd,
            gathered: Gathered::default(),
            server: None,
            terms: Terms::default(),
            own: OwnReads::default(),
            again: VecDeque::new(),
            own_was_last: false,
            kept: KeptCompletions::default(),
            under_way: 0,
        };
        session.connect()?;
        Ok(session)
    }

    /// The window's memory. The server writes the pieces of reads that are under way.
    pub fn window(&self) -> &Arc<SharedMapping> {
        &self.window
    }

    /// Operations that have not completed, or whose completion was not taken.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether files that are opened for the device from now on are read by this program itself, by
    /// an io_uring of its own, where the control plane lends them; so it is at first. Such reads are
    /// `Way::Own`: their system calls are this thread's, and no other core has to wake up for them.
    /// Without it the server loop makes them, beside whatever this thread does. The ring is made when
    /// the first such file is opened; a filter that forbids io_uring_setup(2) by killing has to come
    /// with `read_directly(false)`.
    pub fn read_directly(&mut self, is_wanted: bool) {
        self.own.switch(is_wanted);
    }

    /// Submits operations in order and rings once; answers how many there was room for.
    ///
    /// # Errors
    /// `Stale` when a file is of another run of the control plane, `Tag` when a tag is too large
    /// (both before anything is submitted), `Gone` as for `wait`.
    pub fn submit(&mut self, transfers: &[Transfer]) -> Result<usize, DelegatedError> {
        self.connect()?;
        let Some(server) = &self.server else { return Err(DelegatedError::Gone { lost: 0 }) };
        record::check(transfers, server.epoch())?;
        let room = DEPTH_MAX.saturating_sub(self.under_way);
        let mut count = 0;
        for transfer in transfers.iter().take(room) {
            if !self.give(&transfer.operation())? {
                break;
            }
            count += 1;
        }
        self.own.submit();
        self.ring();
        Ok(count)
    }

    /// Asks for the end of the operation with this tag. It completes in any case: with ECANCELED, or
    /// as if nobody had asked. Answers whether it was under way.
    ///
    /// # Errors
    /// As `wait`.
    pub fn cancel(&mut self, tag: u64) -> Result<bool, DelegatedError> {
        if self.own.cancel(tag) {
            return Ok(true);
        }
        let pieces = Pieces::default();
        let completion = self.ask(OpKind::Cancel, ObjectId::default(), tag, pieces)?;
        Ok(completion.result == 0)
    }

    /// Submits one operation and waits for its completion; others are kept for `wait`.
    fn ask(
        &mut self,
        kind: OpKind,
        object: ObjectId,
        argument: u64,
        pieces: Pieces,
    ) -> Result<Completion, DelegatedError> {
        let asked = Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument, pieces };
        self.perform(asked)
    }

    fn perform(&mut self, asked: Operation) -> Result<Completion, DelegatedError> {
        self.connect()?;
        let tag = self.kept.next_tag();
        let operation = Operation { tag, ..asked };
        while self.under_way >= DEPTH_MAX || !self.give(&operation)? {
            let other = self.wait_new(None)?;
            self.kept.keep(other);
        }
        // A read of its own begins with the sleep that waits for it, in one call.
        self.ring();
        self.await_tag(tag)
    }

    /// Gives an operation to whom it is for: the program's own ring, or the server; false when there
    /// is no room.
    fn give(&mut self, operation: &Operation) -> Result<bool, DelegatedError> {
        self.gathered.prepare(&self.window, operation);
        let has_room = self.own.take_over(operation, &self.window) || self.push(operation)?;
        self.under_way += usize::from(has_room);
        Ok(has_room)
    }

    fn push(&mut self, operation: &Operation) -> Result<bool, DelegatedError> {
        let Some(server) = self.server.as_mut() else {
            return Err(DelegatedError::Gone { lost: 0 });
        };
        Ok(server.push(operation)?)
    }

    /// Rings the server; one that sleeps is not woken for what is none of its business.
    fn ring(&mut self) {
        let reads_itself = self.own.has_any();
        self.server
            .iter_mut()
            .filter(|server| server.has_pushed() || !reads_itself)
            .for_each(ServerConnection::ring);
    }

    /// Connects to the server where there is no connection. A program that reads by itself would not
    /// notice otherwise that the control plane has ended, or its session.
    fn connect(&mut self) -> Result<(), DelegatedError> {
        if self.own.has_any() && !self.server.as_ref().is_some_and(ServerConnection::is_kept) {
            return Err(self.lose());
        }
        if self.server.is_none() {
            let (server, terms) = delegation::connect(&self.window_fd)?;
            (self.server, self.terms) = (Some(server), terms);
        }
        Ok(())
    }
}

impl Drop for Delegated {
    /// Operations that are under way go on until the device is done; nobody hears of them. The
    /// program's own reads are waited for, two seconds at most.
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            delegation::end(server.epoch());
        }
    }
}

impl Transfer {
    fn operation(&self) -> Operation {
        let Transfer { kind, file, offset, argument, pieces, tag, timeout_us } = *self;
        Operation { kind, object: file.object, offset, tag, timeout_us, argument, pieces }
    }
}
