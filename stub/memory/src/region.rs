//! A region that this process has a handle on: its bytes, by whichever path, and its life.

use std::fmt;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::set_argument;
use heliostat_abi::memory::{Granted, MemoryName, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_base::bell::Bell;
use heliostat_ring::Area;

use super::allocation::check_size;
use super::delegated::Bytes;
use super::direct::Direct;
use super::moving::is_in_pieces;
use super::{Memory, MemoryError, Questions, Shared};
use crate::ask::AskMemory;

/// A handle on a region. Dropped, it is given back.
pub struct Region {
    pub(crate) memory: Memory,
    pub(crate) id: ObjectId,
    pub(crate) handle: ObjectId,
    pub(crate) rights: Rights,
    /// `None` where the region's operations are delegated.
    pub(crate) direct: Option<Direct>,
    /// The node that it is on, where that is another one.
    pub(crate) node: Option<u64>,
    is_held: bool,
}

impl Region {
    /// Asks for a handle.
    pub(crate) fn ask(memory: &Memory, request: MemoryRequest) -> Result<Self, MemoryError> {
        let granted = memory.shared.control.grant(&memory.placed(request));
        let granted = granted.map_err(|error| memory.of_node(error))?;
        let Granted { handle, region: id, rights, direct: is_direct, node, .. } = granted;
        let memory = memory.clone();
        let mut region = Self { memory, id, handle, rights, direct: None, node, is_held: true };
        if is_direct {
            // Dropped if this fails, it gives the handle back.
            region.direct = Some(Direct::new(region.shared(), granted)?);
        }
        Ok(region)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.memory.shared
    }

    /// Returns the region's identity, by which others may map it that know no name.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns what this handle allows.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Returns the node that it is on, where that is another one than this process's.
    pub fn node(&self) -> Option<u64> {
        self.node
    }

    /// Whether this process reads and writes it by itself; else the server loop does.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Returns how many bytes it has now. Asks the control plane where the path is delegated.
    ///
    /// # Errors
    /// `Stale`; `Gone` when the session has ended.
    pub fn size(&self) -> Result<u64, MemoryError> {
        match &self.direct {
            Some(direct) => direct.with(self.shared(), Area::bytes),
            None => {
                Ok(self.ask_control(&MemoryRequest::Locate { handle: self.handle, from: 0 })?.bytes)
            }
        }
    }

    /// Reads bytes from an offset on; all of `into`.
    ///
    /// # Errors
    /// `Range` when they do not all lie in the region, `Denied`, `Stale`, `Gone`, `Node`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let (wanted, len) = (Rights::READ, into.len() as u64);
        match &self.direct {
            Some(direct) => self.act(direct, wanted, (offset, len), |it| it.read(offset, into)),
            None => self.transfer(wanted, Bytes::Into(&mut [(offset, into)])),
        }
    }

    /// Writes bytes from an offset on; all of `from`.
    ///
    /// # Errors
    /// As `read`. On `Stale`, `Gone` and `Node` some of them may have been written; `Node` says.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), MemoryError> {
        let (wanted, len) = (Rights::WRITE, from.len() as u64);
        match &self.direct {
            Some(direct) => self.act(direct, wanted, (offset, len), |it| it.write(offset, from)),
            None => self.transfer(wanted, Bytes::From(&[(offset, from)])),
        }
    }

    /// Sets bytes from an offset on to a value.
    ///
    /// # Errors
    /// As `write`.
    pub fn set(&self, offset: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        let (wanted, all) = (Rights::WRITE, (offset, bytes));
        if let Some(direct) = &self.direct {
            return self.act(direct, wanted, all, |it| it.set(offset, bytes, value));
        }
        if bytes == 0 {
            return Ok(());
        }
        let argument = set_argument(value, bytes).ok_or_else(|| self.beyond(offset, bytes))?;
        self.delegate(wanted, all, |loops| loops.set(self.handle, offset, argument))
    }

    /// Copies bytes from an offset on to a place in this or another region, as memmove(3) does: they
    /// may overlap. They do not pass through this process unless the two have different paths, or are
    /// on different nodes.
    ///
    /// # Errors
    /// As `write`; the region in the error says whose fault it is.
    pub fn copy_to(
        &self,
        offset: u64,
        into: &Region,
        at: u64,
        bytes: u64,
    ) -> Result<(), MemoryError> {
        match (&self.direct, &into.direct) {
            (Some(from), Some(to)) => self.copy_direct((from, offset), (into, to, at), bytes),
            // A handle means nothing in another session, and bytes pass from node to node here.
            (None, None)
                if self.node == into.node
                    && Arc::ptr_eq(&self.memory.shared, &into.memory.shared) =>
            {
                self.copy_delegated(offset, (into, at), bytes)
            }
            _ => self.copy_through(offset, (into, at), bytes),
        }
    }

    /// Adds to the word at an offset, a multiple of 8, and returns what it was. It wraps around. One
    /// step for everybody who changes words of this region so, on either path.
    ///
    /// # Errors
    /// `Misaligned`; else as `write`.
    pub fn fetch_add(&self, offset: u64, more: u64) -> Result<u64, MemoryError> {
        self.change(OpKind::FetchAdd, offset, (more, 0), |it| it.fetch_add(offset, more))
    }

    /// Stores `new` in the word at an offset if it is `expected`; returns what it was, which says
    /// whether it did.
    ///
    /// # Errors
    /// As `fetch_add`.
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, MemoryError> {
        let asked = (new, expected);
        self.change(OpKind::CompareSwap, offset, asked, |it| it.compare_swap(offset, expected, new))
    }

    /// Stores `new` in the word at an offset and returns what it was.
    ///
    /// # Errors
    /// As `fetch_add`.
    pub fn swap(&self, offset: u64, new: u64) -> Result<u64, MemoryError> {
        self.change(OpKind::Swap, offset, (new, 0), |it| it.swap(offset, new))
    }

    /// Makes it longer, to so many bytes; those that come are zero. Handles stay as they are, and
    /// whoever has one sees the new length with its next operation. One that has as many pieces as it
    /// may have is moved first, so that it lies in one.
    ///
    /// # Errors
    /// `Size` for fewer bytes than it has; `Control` without MANAGE, or at a limit; `Stale`, `Gone`;
    /// as `relocate`.
    pub fn grow(&self, bytes: u64) -> Result<(), MemoryError> {
        check_size(bytes, self.size()?)?;
        let request = MemoryRequest::Grow { handle: self.handle, bytes };
        match self.ask_control(&request) {
            Err(error) if is_in_pieces(&error) => {
                self.relocate()?;
                self.ask_control(&request).map(drop)
            }
            grown => grown.map(drop),
        }
    }

    /// Gives it a name and says what other users may do who know that; without one it loses its own.
    ///
    /// # Errors
    /// `Control` without SHARE, or when another region has the name.
    pub fn rename(&self, name: Option<&str>, others: Rights) -> Result<(), MemoryError> {
        let name = name.map(MemoryName::parse).transpose().map_err(MemoryError::Name)?;
        self.tell_control(&MemoryRequest::Name { handle: self.handle, name, others })
    }

    /// A user may map it with these rights from now on, whatever others may. With MANAGE that user's
    /// programs keep it alive, and may free it.
    ///
    /// # Errors
    /// `Control` without MANAGE, or at a limit.
    pub fn appoint(&self, user: u32, rights: Rights) -> Result<(), MemoryError> {
        self.tell_control(&MemoryRequest::Appoint { handle: self.handle, user, rights })
    }

    /// Says whether it outlives those who manage it.
    ///
    /// # Errors
    /// `Control` without MANAGE.
    pub fn set_lasting(&self, lasting: bool) -> Result<(), MemoryError> {
        self.tell_control(&MemoryRequest::Lasting { handle: self.handle, lasting })
    }

    /// Has this process asked about everybody who wants to map it and may not by the rules.
    ///
    /// # Errors
    /// `Control` without SHARE, or when somebody is asked already.
    pub fn questions(&self) -> Result<Questions, MemoryError> {
        let (bell, rung) = Bell::pair().map_err(MemoryError::Event)?;
        let asked = MemoryRequest::AskMe { handle: self.handle };
        let told = self.shared().control.tell(&asked, &[rung.as_raw_fd()]);
        told.map_err(|error| self.of_control(error))?;
        Ok(Questions::new(self.memory.shared.clone(), bell))
    }

    /// Ends the region, for everybody: other handles on it are stale.
    ///
    /// # Errors
    /// `Control` without MANAGE; the handle is given back all the same.
    pub fn free(mut self) -> Result<(), MemoryError> {
        self.tell_control(&MemoryRequest::Free { handle: self.handle })?;
        self.is_held = false;
        Ok(())
    }
}

impl Drop for Region {
    /// The region ends with the last handle that may manage it, unless it is lasting.
    fn drop(&mut self) {
        if self.is_held && self.shared().control.is_own() {
            // Where the session has ended its handles have. In a child of a fork they are the parent's.
            let _ = self.tell_control(&MemoryRequest::Unmap { handle: self.handle });
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.is_direct() { "direct" } else { "delegated" };
        write!(f, "region {} with {}, {path}", self.id, self.rights)
    }
}
