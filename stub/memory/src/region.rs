//! A region that this process has a handle on: its bytes, by whichever path, and its life.

use std::fmt;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use heliostat_abi::cluster::Class;
use heliostat_abi::code::{Code, Thing};
use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::set_argument;
use heliostat_abi::memory::{Granted, MemoryName, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_base::bell::Bell;
use heliostat_client::ControlError;
use heliostat_ring::replaced::Replaced;

use super::allocation::check_size;
use super::delegated::Bytes;
use super::direct::Direct;
use super::{Memory, MemoryError, Questions, Shared};
use crate::ask::AskMemory;

/// How often a region is followed from node to node for one operation.
pub(crate) const HOPS_MAX: usize = 16;

/// A handle on a region. Dropped, it is given back.
pub struct Region {
    pub(crate) memory: Memory,
    pub(crate) rights: Rights,
    /// Where it is: on another node another one, after it has moved there.
    pub(crate) place: Replaced<Place>,
    /// Held by who asks where it has moved to.
    pub(crate) following: Mutex<()>,
    is_held: bool,
}

/// A handle, as long as the region is on one node.
pub(crate) struct Place {
    pub(crate) id: ObjectId,
    pub(crate) handle: ObjectId,
    /// `None` where the region's operations are delegated.
    pub(crate) direct: Option<Direct>,
    /// The node that it is on, where that is another one.
    pub(crate) node: Option<u64>,
}

impl Place {
    /// Asks for a handle; also what it allows.
    pub(crate) fn ask(
        memory: &Memory,
        request: MemoryRequest,
    ) -> Result<(Self, Rights), MemoryError> {
        let (mut there, mut request) = (memory.clone(), request);
        for _ in 0..HOPS_MAX {
            let asked = memory.shared.control.ask_own(&there.placed(request.clone()), &[]);
            let state = match asked.map_err(|error| there.of_node(error))?.0 {
                MemoryReply::Granted(granted) => return Self::of(memory, granted),
                MemoryReply::Moving(state) if state.node != 0 => state,
                _ => return Err(MemoryError::Corrupt),
            };
            // It has left the node where it was looked for.
            let MemoryRequest::MapRegion { rights, .. } = request else {
                return Err(MemoryError::Corrupt);
            };
            there = memory.on(state.node);
            request = MemoryRequest::MapRegion { region: state.region, rights };
        }
        Err(MemoryError::Corrupt)
    }

    fn of(memory: &Memory, granted: Granted) -> Result<(Self, Rights), MemoryError> {
        let Granted { handle, region: id, rights, direct: is_direct, node, .. } = granted;
        let mut place = Self { id, handle, direct: None, node };
        if is_direct {
            match Direct::new(&memory.shared, granted) {
                Ok(direct) => place.direct = Some(direct),
                Err(error) => {
                    let _ = memory.shared.control.tell(&MemoryRequest::Unmap { handle }, &[]);
                    return Err(error);
                }
            }
        }
        Ok((place, rights))
    }
}

impl Region {
    /// Asks for a handle.
    pub(crate) fn ask(memory: &Memory, request: MemoryRequest) -> Result<Self, MemoryError> {
        let (place, rights) = Place::ask(memory, request)?;
        let (place, following) = (Replaced::new(place), Mutex::new(()));
        Ok(Self { memory: memory.clone(), rights, place, following, is_held: true })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.memory.shared
    }

    /// Where it is, as far as this process knows.
    #[inline]
    pub(crate) fn place(&self) -> Arc<Place> {
        self.place.load()
    }

    pub(crate) fn handle(&self) -> ObjectId {
        self.place().handle
    }

    /// Returns the region's identity, by which others may map it that know no name. It is another one
    /// once the region has moved to another node, and this process has found it there.
    pub fn id(&self) -> ObjectId {
        self.place().id
    }

    /// Returns what this handle allows.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Returns the node that it is on, where that is another one than this process's.
    pub fn node(&self) -> Option<u64> {
        self.place().node
    }

    /// Whether this process reads and writes it by itself; else the server loop does.
    pub fn is_direct(&self) -> bool {
        self.place().direct.is_some()
    }

    /// Returns how many bytes it has now. Asks the control plane where the path is delegated.
    ///
    /// # Errors
    /// `Stale`; `Gone` when the session has ended.
    pub fn size(&self) -> Result<u64, MemoryError> {
        self.wherever(|place| self.size_at(place))
    }

    /// Reads bytes from an offset on; all of `into`.
    ///
    /// # Errors
    /// `Range` when they do not all lie in the region, `Denied`, `Stale`, `Gone`, `Node`.
    #[inline]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let (wanted, len) = (Rights::READ, into.len() as u64);
        match self.at_once(wanted, (offset, len), |it| it.read(offset, into)) {
            Some(done) => done,
            None => self.read_otherwise(offset, into),
        }
    }

    #[inline(never)]
    fn read_otherwise(&self, offset: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let (wanted, len) = (Rights::READ, into.len() as u64);
        self.wherever(|place| match &place.direct {
            Some(direct) => self.act(direct, wanted, (offset, len), |it| it.read(offset, into)),
            None => self.transfer(place, wanted, Bytes::Into(&mut [(offset, &mut *into)])),
        })
    }

    /// Writes bytes from an offset on; all of `from`.
    ///
    /// # Errors
    /// As `read`. On `Stale`, `Gone` and `Node` some of them may have been written; `Node` says.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), MemoryError> {
        let (wanted, len) = (Rights::WRITE, from.len() as u64);
        match self.at_once(wanted, (offset, len), |it| it.write(offset, from)) {
            Some(done) => done,
            None => self.write_otherwise(offset, from),
        }
    }

    #[inline(never)]
    fn write_otherwise(&self, offset: u64, from: &[u8]) -> Result<(), MemoryError> {
        let (wanted, len) = (Rights::WRITE, from.len() as u64);
        self.wherever(|place| match &place.direct {
            Some(direct) => self.act(direct, wanted, (offset, len), |it| it.write(offset, from)),
            None => self.transfer(place, wanted, Bytes::From(&[(offset, from)])),
        })
    }

    /// Sets bytes from an offset on to a value.
    ///
    /// # Errors
    /// As `write`.
    pub fn set(&self, offset: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        let (wanted, all) = (Rights::WRITE, (offset, bytes));
        self.wherever(|place| {
            if let Some(direct) = &place.direct {
                return self.act(direct, wanted, all, |it| it.set(offset, bytes, value));
            }
            if bytes == 0 {
                return Ok(());
            }
            let argument = set_argument(value, bytes).ok_or_else(|| self.beyond(offset, bytes))?;
            self.delegate(wanted, all, |loops| loops.set(place.handle, offset, argument))
        })
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
        if self.is_part_of(offset, (into, at), bytes) {
            // Done in part it cannot be done again. The region is looked for before.
            self.size()?;
            return self.copy_once((&self.place(), offset), (into, &into.place(), at), bytes);
        }
        self.wherever(|place| {
            into.wherever(|to| self.copy_once((place, offset), (into, to, at), bytes))
        })
    }

    fn copy_once(
        &self,
        (place, offset): (&Place, u64),
        (into, to, at): (&Region, &Place, u64),
        bytes: u64,
    ) -> Result<(), MemoryError> {
        match (&place.direct, &to.direct) {
            (Some(from), Some(to)) => self.copy_direct((from, offset), (into, to, at), bytes),
            // A handle means nothing in another session, and bytes pass from node to node here.
            (None, None)
                if place.node == to.node
                    && Arc::ptr_eq(&self.memory.shared, &into.memory.shared) =>
            {
                self.copy_delegated(offset, (into, at), bytes)
            }
            _ => self.copy_through(offset, (into, at), bytes),
        }
    }

    /// Whether a copy reads bytes that it writes, and not in one step of this process.
    fn is_part_of(&self, offset: u64, (into, at): (&Region, u64), bytes: u64) -> bool {
        let (from, to) = (self.place(), into.place());
        let meets = offset < at.saturating_add(bytes) && at < offset.saturating_add(bytes);
        from.id == to.id && from.node == to.node && from.direct.is_none() && meets
    }

    /// Adds to the word at an offset, a multiple of 8, and returns what it was. It wraps around. One
    /// step for everybody who changes words of this region so, on either path.
    ///
    /// # Errors
    /// `Misaligned`; else as `write`.
    #[inline]
    pub fn fetch_add(&self, offset: u64, more: u64) -> Result<u64, MemoryError> {
        self.change(OpKind::FetchAdd, offset, (more, 0), |it| it.fetch_add(offset, more))
    }

    /// Stores `new` in the word at an offset if it is `expected`; returns what it was, which says
    /// whether it did.
    ///
    /// # Errors
    /// As `fetch_add`.
    #[inline]
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, MemoryError> {
        let asked = (new, expected);
        self.change(OpKind::CompareSwap, offset, asked, |it| it.compare_swap(offset, expected, new))
    }

    /// Stores `new` in the word at an offset and returns what it was.
    ///
    /// # Errors
    /// As `fetch_add`.
    #[inline]
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
        match self.grow_once(bytes) {
            Err(error) if is_in_pieces(&error) => {
                self.relocate()?;
                self.grow_once(bytes)
            }
            grown => grown,
        }
    }

    fn grow_once(&self, bytes: u64) -> Result<(), MemoryError> {
        self.wherever(|place| {
            self.ask_control(&MemoryRequest::Grow { handle: place.handle, bytes }).map(drop)
        })
    }

    /// Gives it a name and says what other users may do who know that; without one it loses its own.
    ///
    /// # Errors
    /// `Control` without SHARE, or when another region has the name.
    pub fn rename(&self, name: Option<&str>, others: Rights) -> Result<(), MemoryError> {
        let name = name.map(MemoryName::parse).transpose().map_err(MemoryError::Name)?;
        self.wherever(|place| {
            let (handle, name) = (place.handle, name.clone());
            self.tell_control(&MemoryRequest::Name { handle, name, others })
        })
    }

    /// A user may map it with these rights from now on, whatever others may. With MANAGE that user's
    /// programs keep it alive, and may free it.
    ///
    /// # Errors
    /// `Control` without MANAGE, or at a limit.
    pub fn appoint(&self, user: u32, rights: Rights) -> Result<(), MemoryError> {
        self.wherever(|place| {
            self.tell_control(&MemoryRequest::Appoint { handle: place.handle, user, rights })
        })
    }

    /// Says whether it outlives those who manage it.
    ///
    /// # Errors
    /// `Control` without MANAGE.
    pub fn set_lasting(&self, lasting: bool) -> Result<(), MemoryError> {
        self.wherever(|place| {
            self.tell_control(&MemoryRequest::Lasting { handle: place.handle, lasting })
        })
    }

    /// Says how urgent is what this process does with it from now on, where it is on another node: no more
    /// than the rules let it. Where nothing is done for classes it has no effect.
    ///
    /// # Errors
    /// `Control` for a region of this node.
    pub fn set_class(&self, class: Class) -> Result<(), MemoryError> {
        self.wherever(|place| {
            self.tell_control(&MemoryRequest::Class { handle: place.handle, class })
        })
    }

    /// Has this process asked about everybody who wants to map it and may not by the rules.
    ///
    /// # Errors
    /// `Control` without SHARE, or when somebody is asked already.
    pub fn questions(&self) -> Result<Questions, MemoryError> {
        let (bell, rung) = Bell::pair().map_err(MemoryError::Event)?;
        let asked = MemoryRequest::AskMe { handle: self.handle() };
        let told = self.shared().control.tell(&asked, &[rung.as_raw_fd()]);
        told.map_err(|error| self.of_control(error))?;
        Ok(Questions::new(self.memory.shared.clone(), bell))
    }

    /// Ends the region, for everybody: other handles on it are stale.
    ///
    /// # Errors
    /// `Control` without MANAGE; the handle is given back all the same.
    pub fn free(mut self) -> Result<(), MemoryError> {
        self.wherever(|place| self.tell_control(&MemoryRequest::Free { handle: place.handle }))?;
        self.is_held = false;
        Ok(())
    }
}

impl Drop for Region {
    /// The region ends with the last handle that may manage it, unless it is lasting.
    fn drop(&mut self) {
        if self.is_held && self.shared().control.is_own() {
            // Where the session has ended its handles have. In a child of a fork they are the parent's.
            let _ = self.tell_control(&MemoryRequest::Unmap { handle: self.handle() });
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.is_direct() { "direct" } else { "delegated" };
        write!(f, "region {} with {}, {path}", self.id(), self.rights)
    }
}

/// Whether a region has as many pieces as it may have: in one piece it can grow on.
pub(crate) fn is_in_pieces(error: &MemoryError) -> bool {
    let MemoryError::Control(ControlError::Refused { code, bound, .. }) = error else {
        return false;
    };
    *code == Code::Full && bound.thing == Thing::MemoryPieces
}
