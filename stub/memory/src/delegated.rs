//! The delegated path: a window, and operations that the server loop carries out.
//!
//! One operation that is short goes by the call, asked and answered in one line. A long transfer, and one
//! of many pieces, goes in chunks by the ring, so that the loop copies one while this side copies another.
//! While operations are on their way that nobody waits for (`jobs`), one that is waited for joins them.

mod after;
mod jobs;
mod stream;
mod task;
mod window;

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::{Completion, OneRead, OpKind, Operation, Piece};
use heliostat_abi::memory::operation::{CopySource, COPY_BYTES, WORD_BYTES};
use heliostat_abi::memory::{MemoryReply, MemoryRequest};
use heliostat_abi::name::ObjectId;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;
use heliostat_client::OwnSession;
use heliostat_ring::spsc::Sleep;
use heliostat_ring::WaitError;
use heliostat_stub_link::{LinkError, ServerConnection};

use super::MemoryError;
use crate::ask::AskMemory;
use jobs::Jobs;
use window::{operation, outside, result_of, slot, WINDOW_BYTES};

pub(crate) use after::After;
pub(crate) use jobs::End;
pub(crate) use stream::{Bytes, Failed, Handles};
pub(crate) use task::Task;

/// How long a loop may take to let go of what it had, and how soon it is asked again.
const LET_GO_LIMIT: Duration = Duration::from_secs(1);
const LET_GO_PAUSE: Duration = Duration::from_micros(200);

/// This process's session with a loop.
pub(crate) struct Delegated {
    server: ServerConnection,
    window: SharedMapping,
    jobs: Jobs,
}

/// Why an operation did not end as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The loop said so.
    Errno(i32),
    /// The session is over; the operation may have been done or not.
    Gone,
    /// The loop broke the protocol.
    Link(LinkError),
}

impl Delegated {
    /// Asks the control plane to have a loop serve a window.
    pub(crate) fn begin(control: &OwnSession) -> Result<Self, MemoryError> {
        let made = SharedMapping::create(c"heliostat-memory-window", WINDOW_BYTES);
        let (fd, window) = made.map_err(MemoryError::Mapping)?;
        let shown = [std::os::fd::AsRawFd::as_raw_fd(&fd)];
        let (reply, fds) = ask_session(control, &shown)?;
        let (MemoryReply::Session { .. }, [rings]) = (reply, fds.as_slice()) else {
            return Err(MemoryError::Corrupt);
        };
        let server = ServerConnection::attach(control.standing().clone(), rings)?;
        Ok(Self { server, window, jobs: Jobs::default() })
    }

    /// Moves bytes between regions and this process's memory.
    pub(crate) fn transfer(
        &mut self,
        handles: Handles<'_>,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<(), Failed> {
        if !self.jobs.is_empty() {
            return self.transfer_among_jobs(handles, bytes);
        }
        if bytes.is_short(handles.of(0)) {
            return self.move_short(handles.of(0), bytes).map_err(|failure| (failure, 0));
        }
        self.stream(handles, bytes)
    }

    /// Sets bytes by the argument of `set_argument`.
    pub(crate) fn set(
        &mut self,
        handle: ObjectId,
        offset: u64,
        argument: u64,
    ) -> Result<(), Failure> {
        if !self.jobs.is_empty() {
            return self.await_job(Task::Set { handle, offset, argument }).map(drop);
        }
        self.perform(&operation(OpKind::Set, handle, offset, argument, &[])).map(drop)
    }

    /// Copies bytes to a place in the region of a handle.
    pub(crate) fn copy(
        &mut self,
        source: &CopySource,
        handle: ObjectId,
        offset: u64,
    ) -> Result<(), Failure> {
        if !self.jobs.is_empty() {
            let task = Task::Copy { source: *source, handle, offset };
            return self.await_job(task).map(drop);
        }
        self.window.copy_in(0, &source.encode()).map_err(outside)?;
        let place = [Piece { offset: 0, bytes: COPY_BYTES as u32 }];
        self.perform(&operation(OpKind::Copy, handle, offset, 0, &place)).map(drop)
    }

    /// Changes a word; returns what it was.
    pub(crate) fn change_word(
        &mut self,
        kind: OpKind,
        (handle, offset): (ObjectId, u64),
        argument: u64,
        expected: u64,
    ) -> Result<u64, Failure> {
        if !self.jobs.is_empty() {
            let task = Task::Word { kind, handle, offset, argument, expected };
            return self.await_job(task).map(|(old, _)| old);
        }
        self.window.copy_in(0, &expected.to_le_bytes()).map_err(outside)?;
        let place = [Piece { offset: 0, bytes: WORD_BYTES as u32 }];
        self.perform(&operation(kind, handle, offset, argument, &place))?;
        let mut word = [0; WORD_BYTES];
        self.window.copy_out(0, &mut word).map_err(outside)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Takes operations in that nobody waits for in a call; returns their numbers. Their ends are called
    /// by whoever has this value when their completions are found.
    pub(crate) fn add(
        &mut self,
        tasks: impl IntoIterator<Item = (Task, bool, End)>,
    ) -> Result<Vec<u64>, Failure> {
        let add = |(task, is_urgent, end)| self.jobs.add(task, is_urgent, end);
        let numbers = tasks.into_iter().map(add).collect();
        self.pump()?;
        Ok(numbers)
    }

    /// Has such operations end early.
    pub(crate) fn cancel(&mut self, number: u64) -> Result<(), Failure> {
        self.jobs.cancel(number, &mut self.server)?;
        self.pump()
    }

    /// Takes the completions that are there; false when nothing is under way any more.
    pub(crate) fn attend(&mut self) -> Result<bool, Failure> {
        self.attend_after(false)
    }

    /// The same, where one was taken just before (`is_any`): what has not begun may have its slot.
    fn attend_after(&mut self, mut is_any: bool) -> Result<bool, Failure> {
        // Where nothing is under way, what is there is the loop's fault, and is found by the next one.
        while self.jobs.under_way() > 0 {
            let Some(found) = self.server.pop().map_err(Failure::Link)? else { break };
            self.jobs.complete(&self.window, &found)?;
            is_any = true;
        }
        if is_any {
            self.pump()?;
            self.server.end_sleeps();
        }
        if self.jobs.is_empty() {
            return Ok(false);
        }
        self.server.is_kept().then_some(true).ok_or(Failure::Gone)
    }

    /// Announces a sleep until there are completions, after it has looked for a moment; `None` when
    /// there may be some.
    pub(crate) fn announce(&mut self) -> Result<Option<Sleep>, Failure> {
        if let Some(found) = self.server.look().map_err(Failure::Link)? {
            self.jobs.complete(&self.window, &found)?;
            self.attend_after(true)?;
            return Ok(None);
        }
        Ok(self.server.announce())
    }

    /// The session is over: operations that nobody waits for in a call end with this.
    pub(crate) fn fail_jobs(&mut self, failure: Failure) {
        self.jobs.fail_all(failure);
        self.server.end_sleeps();
    }

    /// Returns what ends have left to be done by whoever has this value, once nobody has it.
    pub(crate) fn take_after(&mut self) -> After {
        self.jobs.take_after()
    }

    fn pump(&mut self) -> Result<(), Failure> {
        self.jobs.pump(&mut self.server, &self.window)?;
        if self.server.has_pushed() {
            self.server.ring();
        }
        Ok(())
    }

    /// Transfers the pieces one after the other among the operations that are under way.
    fn transfer_among_jobs(
        &mut self,
        handles: Handles<'_>,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<(), Failed> {
        for number in 0..bytes.count() {
            let ((offset, len), handle) = (bytes.piece(number), handles.of(number));
            if len == 0 {
                continue;
            }
            let task = match &bytes {
                Bytes::Into(_) => Task::Read { handle, offset, into: vec![0; len] },
                Bytes::From(pieces) => {
                    Task::Write { handle, offset, from: pieces[number].1.to_vec() }
                }
            };
            let (_, moved) = self.await_job(task).map_err(|failure| (failure, number))?;
            if let Bytes::Into(pieces) = bytes {
                pieces[number].1.copy_from_slice(&moved);
            }
        }
        Ok(())
    }

    /// Has an operation done among the others, before those that have not begun, and waits for its end.
    fn await_job(&mut self, task: Task) -> Result<(u64, Vec<u8>), Failure> {
        let (sender, receiver) = sync_channel(1);
        let end: End = Box::new(move |result, bytes, _| {
            // The receiver is there until it has this.
            let _ = sender.send((result, bytes));
        });
        self.jobs.add(task, true, end);
        self.pump()?;
        loop {
            if let Ok((result, bytes)) = receiver.try_recv() {
                return result.map(|result| (result, bytes));
            }
            let found = self.wait(self.jobs.under_way())?;
            self.jobs.complete(&self.window, &found)?;
            self.attend_after(true)?;
        }
    }

    /// The shortest way, for a read that the loop answers at once; `None` where it does not lead there.
    fn call_read(
        &mut self,
        object: ObjectId,
        offset: u64,
        len: usize,
    ) -> Result<Option<u64>, Failure> {
        if !self.server.may_call() {
            return Ok(None);
        }
        let read = OneRead { object, offset, tag: 0, piece: slot(0, len) };
        self.server.call(&read).map_err(gone)?.map(result_of).transpose()
    }

    /// Has an operation done and waits for its end, by the call where that is answered soon.
    fn perform(&mut self, asked: &Operation) -> Result<u64, Failure> {
        if self.server.may_call() {
            if let Some(result) = self.server.call_operation(asked).map_err(gone)? {
                return result_of(result);
            }
        }
        self.push(asked)?;
        self.server.ring();
        result_of(self.wait(1)?.result)
    }

    fn push(&mut self, asked: &Operation) -> Result<(), Failure> {
        // There is room: no more are under way than there are slots.
        match self.server.push(asked).map_err(Failure::Link)? {
            true => Ok(()),
            false => Err(Failure::Link(LinkError::Corrupt)),
        }
    }

    fn wait(&mut self, under_way: usize) -> Result<Completion, Failure> {
        if let Some(found) = self.server.look().map_err(Failure::Link)? {
            return Ok(found);
        }
        self.server.wait(None, under_way).map_err(gone)?;
        self.server.pop().map_err(Failure::Link)?.ok_or(Failure::Link(LinkError::Corrupt))
    }
}

/// Asks for a session. A loop that this process has given up is about to let go of its handles.
fn ask_session(
    control: &OwnSession,
    shown: &[i32],
) -> Result<(MemoryReply, Vec<OwnedFd>), MemoryError> {
    let begun = Instant::now();
    loop {
        let asked = control.ask_own(&MemoryRequest::Session, shown);
        let is_early = matches!(&asked, Err(error) if error.refusal() == Some(Code::BadState));
        if !is_early || begun.elapsed() > LET_GO_LIMIT {
            return asked;
        }
        std::thread::sleep(LET_GO_PAUSE);
    }
}

fn gone(_: WaitError) -> Failure {
    Failure::Gone
}
