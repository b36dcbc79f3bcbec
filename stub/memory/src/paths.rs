//! How a region's operations take its path, and what their errors mean, the same on both.

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::{CopySource, CHANGED_BYTES_MAX};
use heliostat_abi::memory::{Granted, MemoryRequest, Rights};
use heliostat_base::mapping::OutOfRange;
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_ring::area::{Area, WORD_BYTES};

use super::delegated::{Bytes, Delegated, Failure};
use super::direct::Direct;
use super::{MemoryError, Region};

/// Bytes that go through this process at once where two regions have different paths.
const THROUGH_BYTES: usize = 64 * 1024;
/// Offsets beyond are no region's, and none that a record can say.
const OFFSET_MAX: u64 = 1 << 62;

impl Region {
    /// Acts on the mapped bytes, as far as the handle allows it.
    #[inline]
    pub(crate) fn act<T>(
        &self,
        direct: &Direct,
        wanted: Rights,
        (offset, bytes): (u64, u64),
        act: impl FnOnce(&Area) -> Result<T, OutOfRange>,
    ) -> Result<T, MemoryError> {
        let allowed = |area: &Area| self.check(wanted).map(|()| act(area));
        direct
            .with(self.shared(), allowed)??
            .map_err(|error| self.range(offset, bytes, error.limit))
    }

    pub(crate) fn transfer(
        &self,
        wanted: Rights,
        offset: u64,
        bytes: Bytes<'_>,
    ) -> Result<(), MemoryError> {
        let len = bytes.len() as u64;
        if len == 0 {
            return Ok(());
        }
        self.delegate(wanted, (offset, len), |loops| loops.transfer(self.handle, offset, bytes))
    }

    pub(crate) fn change(
        &self,
        kind: OpKind,
        offset: u64,
        (argument, expected): (u64, u64),
        act: impl FnOnce(&Area) -> Result<u64, OutOfRange>,
    ) -> Result<u64, MemoryError> {
        if offset % WORD_BYTES != 0 {
            return Err(MemoryError::Misaligned { region: self.id, offset });
        }
        let all = (offset, WORD_BYTES);
        match &self.direct {
            Some(direct) => self.act(direct, Rights::ATOMIC, all, act),
            None => self.delegate(Rights::ATOMIC, all, |loops| {
                loops.change_word(kind, (self.handle, offset), argument, expected)
            }),
        }
    }

    /// Copies between two mapped regions.
    pub(crate) fn copy_direct(
        &self,
        (from, offset): (&Direct, u64),
        (into, to, at): (&Region, &Direct, u64),
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let all = (offset, bytes);
        self.act(from, Rights::READ, all, |from| {
            from.check(offset, bytes)?;
            Ok(into.act(to, Rights::WRITE, (at, bytes), |to| from.copy(offset, (to, at), bytes)))
        })?
    }

    /// Has the server loop copy between two regions.
    pub(crate) fn copy_delegated(
        &self,
        offset: u64,
        (into, at): (&Region, u64),
        bytes: u64,
    ) -> Result<(), MemoryError> {
        if bytes == 0 {
            return Ok(());
        }
        if bytes > CHANGED_BYTES_MAX || offset > OFFSET_MAX {
            return Err(self.beyond(offset, bytes));
        }
        if at > OFFSET_MAX {
            return Err(into.beyond(at, bytes));
        }
        let source = CopySource { handle: self.handle, offset, bytes };
        let copied = self.with_loops(|loops| loops.copy(&source, into.handle, at))?;
        copied.map_err(|failure| {
            // The answer does not say of which of both it is.
            let fits =
                self.size().map(|limit| offset.checked_add(bytes).is_some_and(|end| end <= limit));
            match fits {
                Ok(true) if self.rights.have(Rights::READ) => {
                    into.explain(failure, Rights::WRITE, (at, bytes))
                }
                _ => self.explain(failure, Rights::READ, (offset, bytes)),
            }
        })
    }

    /// Copies between regions of which this process has mapped one.
    pub(crate) fn copy_through(
        &self,
        offset: u64,
        (into, at): (&Region, u64),
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let mut chunk = vec![0; THROUGH_BYTES.min(bytes as usize)];
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(THROUGH_BYTES as u64);
            let chunk = &mut chunk[..part as usize];
            self.read(offset.saturating_add(done), chunk)?;
            into.write(at.saturating_add(done), chunk)?;
            done += part;
        }
        Ok(())
    }

    /// Has the server loop do something with the region.
    pub(crate) fn delegate<T>(
        &self,
        wanted: Rights,
        all: (u64, u64),
        act: impl FnOnce(&mut Delegated) -> Result<T, Failure>,
    ) -> Result<T, MemoryError> {
        if all.0.saturating_add(all.1) > OFFSET_MAX {
            return Err(self.beyond(all.0, all.1));
        }
        self.with_loops(act)?.map_err(|failure| self.explain(failure, wanted, all))
    }

    /// Does something in this process's session with a loop, which begins at its first use.
    fn with_loops<T>(
        &self,
        act: impl FnOnce(&mut Delegated) -> Result<T, Failure>,
    ) -> Result<Result<T, Failure>, MemoryError> {
        let mut session = self.shared().delegated();
        let loops = match &mut *session {
            Some(loops) => loops,
            none => {
                let begun = Delegated::begin(&self.shared().control);
                none.insert(begun.map_err(|error| self.of_control(error))?)
            }
        };
        let done = act(loops);
        if matches!(done, Err(Failure::Gone | Failure::Link(_))) {
            *session = None;
        }
        Ok(done)
    }

    /// Asks for what is answered with where the region is.
    pub(crate) fn ask_control(&self, request: &MemoryRequest) -> Result<Granted, MemoryError> {
        self.shared().control.grant(request).map_err(|error| self.of_control(error))
    }

    /// Asks for what is only done.
    pub(crate) fn tell_control(&self, request: &MemoryRequest) -> Result<(), MemoryError> {
        let told = self.shared().control.tell(request, &[]);
        told.map_err(|error| self.of_control(error))
    }

    /// What an answer of the control plane means for this region.
    pub(crate) fn of_control(&self, error: MemoryError) -> MemoryError {
        match error {
            MemoryError::Control(ControlError::Refused { code: Code::Stale, .. }) => {
                MemoryError::Stale { region: self.id }
            }
            MemoryError::Control(
                ControlError::SessionEnded | ControlError::Broken(_) | ControlError::NotRunning(_),
            ) => MemoryError::Gone { region: self.id },
            other => other,
        }
    }

    /// The error for bytes that do not all lie in the region.
    pub(crate) fn beyond(&self, offset: u64, bytes: u64) -> MemoryError {
        match self.size() {
            Ok(limit) => self.range(offset, bytes, limit as usize),
            Err(error) => error,
        }
    }

    fn check(&self, wanted: Rights) -> Result<(), MemoryError> {
        if self.rights.have(wanted) {
            return Ok(());
        }
        Err(self.denied(wanted))
    }

    fn explain(&self, failure: Failure, wanted: Rights, all: (u64, u64)) -> MemoryError {
        let region = self.id;
        match failure {
            Failure::Gone | Failure::Errno(libc::EBADF) => MemoryError::Gone { region },
            Failure::Link(error) => MemoryError::Link(error),
            Failure::Errno(libc::ESTALE) => MemoryError::Stale { region },
            Failure::Errno(libc::EACCES) => self.denied(wanted),
            Failure::Errno(libc::ERANGE) => self.beyond(all.0, all.1),
            Failure::Errno(errno) => MemoryError::Server { region, errno: Errno(errno) },
        }
    }

    fn denied(&self, wanted: Rights) -> MemoryError {
        MemoryError::Denied { region: self.id, wanted, found: self.rights }
    }

    fn range(&self, offset: u64, bytes: u64, limit: usize) -> MemoryError {
        MemoryError::Range { region: self.id, offset, bytes, limit: limit as u64 }
    }
}
