//! How a region's operations take its path, and what their errors mean, the same on both.

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::{CopySource, CHANGED_BYTES_MAX};
use heliostat_abi::memory::{Granted, MemoryRequest, Rights};
use heliostat_base::mapping::OutOfRange;
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_ring::area::{Area, WORD_BYTES};
use heliostat_ring::replaced::Section;

use super::delegated::{Bytes, Delegated, Failure, Handles};
use super::direct::Direct;
use super::region::Place;
use super::{MemoryError, NodeFailure, Region};
use crate::ask::AskMemory;

/// Bytes that go through this process at once where two regions have different paths.
const THROUGH_BYTES: u64 = 64 * 1024;
/// The same where one is on another node: as many as are on their way there at once.
const FAR_THROUGH_BYTES: u64 = 4 << 20;
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

    /// The same, if it may be done at once; else nothing is done. This is what most accesses are: its
    /// looks at where the region is have no locked instruction, by which the next access would wait.
    #[inline(always)]
    pub(crate) fn at_once<T>(
        &self,
        wanted: Rights,
        (offset, bytes): (u64, u64),
        act: impl FnOnce(&Area) -> Result<T, OutOfRange>,
    ) -> Option<Result<T, MemoryError>> {
        let section = Section::begin();
        let direct = self.place.get(&section).direct.as_ref()?;
        if !self.rights.have(wanted) {
            return None;
        }
        match direct.at_once(&section, act)? {
            Ok(done) => Some(Ok(done)),
            Err(error) => Some(Err(self.range(offset, bytes, error.limit))),
        }
    }

    /// Has the server loop move the pieces.
    pub(crate) fn transfer(
        &self,
        place: &Place,
        wanted: Rights,
        mut bytes: Bytes<'_, '_>,
    ) -> Result<(), MemoryError> {
        let mut is_empty = true;
        for number in 0..bytes.count() {
            let (offset, len) = bytes.piece(number);
            check_offset(offset, len as u64).map_err(|()| self.beyond(offset, len as u64))?;
            is_empty &= len == 0;
        }
        if is_empty {
            return Ok(());
        }
        let mut failed = 0;
        let moved = self.with_loops(|loops| {
            let moved = loops.transfer(Handles::One(place.handle), &mut bytes);
            moved.map_err(|(failure, number)| {
                failed = number;
                failure
            })
        })?;
        moved.map_err(|failure| {
            let (offset, len) = bytes.piece(failed);
            self.explain(failure, wanted, (offset, len as u64))
        })
    }

    #[inline]
    pub(crate) fn change(
        &self,
        kind: OpKind,
        offset: u64,
        with: (u64, u64),
        act: impl Fn(&Area) -> Result<u64, OutOfRange>,
    ) -> Result<u64, MemoryError> {
        let is_word = offset % WORD_BYTES == 0;
        let done = match is_word {
            true => self.at_once(Rights::ATOMIC, (offset, WORD_BYTES), &act),
            false => None,
        };
        match done {
            Some(done) => done,
            None => self.change_otherwise(kind, offset, with, &act),
        }
    }

    #[inline(never)]
    fn change_otherwise(
        &self,
        kind: OpKind,
        offset: u64,
        (argument, expected): (u64, u64),
        act: &dyn Fn(&Area) -> Result<u64, OutOfRange>,
    ) -> Result<u64, MemoryError> {
        if offset % WORD_BYTES != 0 {
            return Err(MemoryError::Misaligned { region: self.id(), offset });
        }
        let all = (offset, WORD_BYTES);
        self.wherever(|place| match &place.direct {
            Some(direct) => self.act(direct, Rights::ATOMIC, all, act),
            None => self.delegate(Rights::ATOMIC, all, |loops| {
                loops.change_word(kind, (place.handle, offset), argument, expected)
            }),
        })
    }

    /// Copies between two mapped regions.
    pub(crate) fn copy_direct(
        &self,
        (from, offset): (&Direct, u64),
        (into, to, at): (&Region, &Direct, u64),
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let (its, others) = ((from, self.shared()), (to, into.shared()));
        Direct::with_both(its, others, |from, to| {
            self.check(Rights::READ)?;
            let beyond = |error: OutOfRange| self.range(offset, bytes, error.limit);
            from.check(offset, bytes).map_err(beyond)?;
            into.check(Rights::WRITE)?;
            let copied = from.copy(offset, (to, at), bytes);
            copied.map_err(|error| into.range(at, bytes, error.limit))
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
        let source = self.copy_source(offset, (into, at), bytes)?;
        let copied = self.with_loops(|loops| loops.copy(&source, into.handle(), at))?;
        // Two regions on several nodes each: no node carries out what is about both.
        if matches!(copied, Err(Failure::Errno(libc::EXDEV))) {
            return self.copy_through(offset, (into, at), bytes);
        }
        copied.map_err(|failure| self.explain_copy(failure, offset, (into, at), bytes))
    }

    /// Where a copy comes from that fits into a record.
    pub(crate) fn copy_source(
        &self,
        offset: u64,
        (into, at): (&Region, u64),
        bytes: u64,
    ) -> Result<CopySource, MemoryError> {
        if bytes > CHANGED_BYTES_MAX || offset > OFFSET_MAX {
            return Err(self.beyond(offset, bytes));
        }
        if at > OFFSET_MAX {
            return Err(into.beyond(at, bytes));
        }
        Ok(CopySource { handle: self.handle(), offset, bytes })
    }

    /// The error of a copy. The loop's answer does not say of which of both regions it is.
    pub(crate) fn explain_copy(
        &self,
        failure: Failure,
        offset: u64,
        (into, at): (&Region, u64),
        bytes: u64,
    ) -> MemoryError {
        let fits = self
            .size_at(&self.place())
            .map(|limit| offset.checked_add(bytes).is_some_and(|end| end <= limit));
        match fits {
            Ok(true) if self.rights.have(Rights::READ) => {
                into.explain(failure, Rights::WRITE, (at, bytes))
            }
            _ => self.explain(failure, Rights::READ, (offset, bytes)),
        }
    }

    /// Copies between regions of which this process has mapped one.
    pub(crate) fn copy_through(
        &self,
        offset: u64,
        (into, at): (&Region, u64),
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let is_near = self.node().is_none() && into.node().is_none();
        let most = if is_near { THROUGH_BYTES } else { FAR_THROUGH_BYTES };
        let mut chunk = vec![0; most.min(bytes) as usize];
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(most);
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
        check_offset(all.0, all.1).map_err(|()| self.beyond(all.0, all.1))?;
        self.with_loops(act)?.map_err(|failure| self.explain(failure, wanted, all))
    }

    /// Does something in this process's session with a loop, which begins at its first use.
    fn with_loops<T>(
        &self,
        act: impl FnOnce(&mut Delegated) -> Result<T, Failure>,
    ) -> Result<Result<T, Failure>, MemoryError> {
        self.shared().with_loops(act).map_err(|error| self.of_control(error))
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
            MemoryError::Control(ControlError::Refused { code: Code::Unreachable, .. }) => {
                MemoryError::Unreachable { node: self.node().unwrap_or_default() }
            }
            MemoryError::Control(ControlError::Refused { code: Code::Stale, .. }) => {
                MemoryError::Stale { region: self.id() }
            }
            MemoryError::Control(
                ControlError::SessionEnded | ControlError::Broken(_) | ControlError::NotRunning(_),
            ) => MemoryError::Gone { region: self.id() },
            other => other,
        }
    }

    /// How many bytes it has where it was last known to be.
    pub(crate) fn size_at(&self, place: &Place) -> Result<u64, MemoryError> {
        match &place.direct {
            Some(direct) => direct.with(self.shared(), Area::bytes),
            None => {
                let located = MemoryRequest::Locate { handle: place.handle, from: 0 };
                Ok(self.ask_control(&located)?.bytes)
            }
        }
    }

    /// The error for bytes that do not all lie in the region.
    pub(crate) fn beyond(&self, offset: u64, bytes: u64) -> MemoryError {
        match self.size_at(&self.place()) {
            Ok(limit) => self.range(offset, bytes, limit as usize),
            Err(error) => error,
        }
    }

    pub(crate) fn check(&self, wanted: Rights) -> Result<(), MemoryError> {
        if self.rights.have(wanted) {
            return Ok(());
        }
        Err(self.denied(wanted))
    }

    pub(crate) fn explain(&self, failure: Failure, wanted: Rights, all: (u64, u64)) -> MemoryError {
        let region = self.id();
        match failure {
            Failure::Gone => MemoryError::Gone { region },
            // A handle whose region was gone before the session with the loop began came to no loop.
            Failure::Errno(libc::EBADF) => match self.size_at(&self.place()) {
                Err(error @ (MemoryError::Stale { .. } | MemoryError::Unreachable { .. })) => error,
                // It was given back: another thread has found the region on another node.
                Ok(_) => MemoryError::Stale { region },
                Err(_) => MemoryError::Gone { region },
            },
            Failure::Link(error) => MemoryError::Link(error),
            Failure::Errno(libc::ESTALE) => MemoryError::Stale { region },
            Failure::Errno(libc::EACCES) => self.denied(wanted),
            Failure::Errno(libc::ERANGE) => self.beyond(all.0, all.1),
            Failure::Errno(libc::ECANCELED) => MemoryError::Cancelled { region },
            Failure::Errno(libc::EHOSTDOWN) => self.of_node(NodeFailure::Down),
            Failure::Errno(libc::ECONNRESET) => self.of_node(NodeFailure::Lost),
            Failure::Errno(libc::ETIMEDOUT) => self.of_node(NodeFailure::Late),
            Failure::Errno(libc::EREMOTEIO) => self.of_node(NodeFailure::Broken),
            Failure::Errno(errno) => MemoryError::Server { region, errno: Errno(errno) },
        }
    }

    /// What happened to the node that it is on.
    fn of_node(&self, why: NodeFailure) -> MemoryError {
        let (region, node) = (self.id(), self.node().unwrap_or_default());
        MemoryError::Node { region, node, why }
    }

    fn denied(&self, wanted: Rights) -> MemoryError {
        MemoryError::Denied { region: self.id(), wanted, found: self.rights }
    }

    pub(crate) fn range(&self, offset: u64, bytes: u64, limit: usize) -> MemoryError {
        MemoryError::Range { region: self.id(), offset, bytes, limit: limit as u64 }
    }
}

/// Checks that bytes lie where a region's may.
pub(crate) fn check_offset(offset: u64, bytes: u64) -> Result<(), ()> {
    (offset.saturating_add(bytes) <= OFFSET_MAX).then_some(()).ok_or(())
}
