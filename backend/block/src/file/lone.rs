//! Operations made by a system call each: the only one there is, and those that are measured.

use std::time::Duration;

use heliostat_backend_uring::{transfer, Direction, Manner};

use super::driver::{how, range_of};
use super::{judge, FileDevice, EINVAL, LONE_WAIT_MIN};
use crate::namespace::{flush_now, transfer_now};
use crate::{BlockError, Buffer, Completion, Request};

impl FileDevice {
    /// Makes the only operation there is by a system call, where somebody waits for it; false where
    /// that is not so.
    pub(super) fn call_lone(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> bool {
        let [place] = self.waiting[..] else { return false };
        let is_waited_for = wait.is_some_and(|wait| wait >= LONE_WAIT_MIN);
        if !self.lone_calls || !is_waited_for || self.under_way() != 1 {
            return false;
        }
        let Some(result) = self.call(place) else { return false };
        self.waiting.clear();
        let result = match result {
            Ok(()) if self.is_to_flush(place) => self.flush(),
            result => result,
        };
        self.complete(place, result, completions);
        true
    }

    /// Flushes by a system call what is written and waits for that, where nothing else is under way:
    /// the ring would give the flush to a thread of the kernel's.
    pub(super) fn flush_written(&mut self, completions: &mut Vec<Completion>) {
        let is_all = self.requests.under_way() == 0 && self.waiting.is_empty();
        if !self.lone_calls || !is_all || self.written.is_empty() {
            return;
        }
        let result = self.flush();
        for place in std::mem::take(&mut self.written) {
            self.complete(place, result, completions);
        }
    }

    /// Makes the only operation there is by a system call, but for a flush after it; `None` where that is none
    /// for one.
    fn call(&self, place: usize) -> Option<Result<(), BlockError>> {
        let operation = self.operations.get(place)?.as_ref()?;
        let by_flush = self.flushes_after(true);
        match &operation.request {
            Request::Read { offset, into } => {
                Some(self.transfer(Direction::Read, *offset, into, Manner::Plain))
            }
            Request::Write { offset, from, durable } => {
                let manner = if *durable && !by_flush { Manner::Durable } else { Manner::Plain };
                Some(self.transfer(Direction::Write, *offset, from, manner))
            }
            Request::Flush => Some(self.flush()),
            Request::Discard { .. } | Request::Zero { .. } => None,
        }
    }

    /// Whether the only operation there is, which is done, is a write that a flush is to make durable.
    fn is_to_flush(&mut self, place: usize) -> bool {
        let by_flush = self.flushes_after(true);
        let Some(Some(operation)) = self.operations.get_mut(place) else { return false };
        operation.is_written =
            by_flush && matches!(operation.request, Request::Write { durable: true, .. });
        operation.is_written
    }

    pub(super) fn transfer(
        &self,
        direction: Direction,
        offset: u64,
        buffer: &Buffer,
        manner: Manner,
    ) -> Result<(), BlockError> {
        let (memory, range) = (&buffer.memory, range_of(buffer));
        let answer = match &self.namespace {
            None => transfer(direction, &self.file, offset, (memory, range), manner),
            Some(is) => {
                let how = how(direction, manner);
                transfer_now(&self.file, is, offset, (memory, range), how)
            }
        };
        judge(answer.unwrap_or(-EINVAL), buffer.bytes)
    }

    pub(super) fn flush(&self) -> Result<(), BlockError> {
        if let Some(is) = &self.namespace {
            return judge(flush_now(&self.file, is), 0);
        }
        rustix::fs::fdatasync(&*self.file)
            .map_err(|errno| BlockError::Device { errno: errno.raw_os_error() })
    }
}
