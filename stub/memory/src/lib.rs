//! Memory regions: bytes with a name, rights and a life of their own, for any program of the node.
//!
//! ```text
//! allocate, map --> control plane: handle, rights, path
//! direct     a look at the region's word, then loads and stores in mapped arenas
//! delegated  window and rings: the server loop looks the handle up, then copies, or has the node do
//!            it that holds the region
//! ```
//!
//! Which path a region has the control plane decides, and says; a program's calls are the same, and so
//! are their results and their errors. A region lives as long as a session that may manage it, unless
//! it is lasting. What others do with a region's bytes at the same time is seen in any mixture; only
//! words change in one step. `docs/memory.md` tells the whole.
//!
//! *Hot* (reads and writes on the direct path): no system call, no allocation, no lock.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod allocation;
mod arenas;
mod ask;
mod attend;
mod delegated;
mod direct;
mod error;
mod listing;
mod mapped;
mod moving;
mod operations;
mod paths;
mod questions;
mod region;
mod spread;
mod vectored;
mod work;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use heliostat_abi::code::Code;
use heliostat_abi::memory::{MemoryName, MemoryRequest};
use heliostat_client::{session, OwnSession};
use heliostat_ring::presence::Presence;
use heliostat_ring::region_page::RegionPage;

pub use allocation::Allocation;
pub use error::{MemoryError, NodeFailure};
pub use heliostat_abi::cluster::Class;
pub use heliostat_abi::memory::name::OWN_USER;
pub use heliostat_abi::memory::{Listed, Question, Rights};
pub use heliostat_abi::name::ObjectId as RegionId;
pub use mapped::MappedBytes;
pub use operations::{Batch, Completion, Operations};
pub use questions::Questions;
pub use region::Region;
pub use spread::{PartPlace, SpreadAllocation, SpreadError, SpreadRegion};
pub use work::{Completed, Submission, Unsubmitted, Work};

use arenas::Arenas;
use attend::Driver;
use delegated::Delegated;

/// This process's access to memory regions, in one session with the control plane. Clones are the same.
///
/// A child of a fork opens its own: handles are its parent's.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
    node: Option<u64>,
}

/// What the regions of one session share.
pub(crate) struct Shared {
    pub(crate) control: OwnSession,
    arenas: Mutex<Arenas>,
    page: OnceLock<RegionPage>,
    /// Where this process says in which regions it is; asked for once.
    presence: Mutex<Option<Presence>>,
    delegated: Mutex<Option<Delegated>>,
    /// The thread that waits for completions, once somebody wants it to.
    driver: OnceLock<Driver>,
}

impl Memory {
    /// Opens it, where `session::configure` or `heliostat run` has said that the control plane is.
    ///
    /// # Errors
    /// No control plane answers.
    pub fn open() -> Result<Memory, MemoryError> {
        // A session that has ended is noticed here, so that the next one is asked.
        session::check_alive();
        let control = OwnSession::new(session::standing().map_err(MemoryError::Control)?);
        let (arenas, page, delegated) = (Mutex::default(), OnceLock::new(), Mutex::new(None));
        let driver = OnceLock::new();
        let presence = Mutex::default();
        let shared = Arc::new(Shared { control, arenas, page, presence, delegated, driver });
        Ok(Memory { shared, node: None })
    }

    /// Returns the same for regions of another node: what is allocated, mapped and listed by it is on
    /// that node, whose control plane decides about it. The node's own number is as if it were not said.
    pub fn on(&self, node: u64) -> Memory {
        Memory { shared: self.shared.clone(), node: Some(node) }
    }

    /// Names the node that a request goes to, if that was said.
    pub(crate) fn placed(&self, request: MemoryRequest) -> MemoryRequest {
        match self.node {
            Some(node) => MemoryRequest::On { node, request: Box::new(request) },
            None => request,
        }
    }

    /// What an answer of the control plane means to who asks for something on a node.
    pub(crate) fn of_node(&self, error: MemoryError) -> MemoryError {
        match (self.node, error.refusal()) {
            (Some(node), Some(Code::Unreachable)) => MemoryError::Unreachable { node },
            _ => error,
        }
    }

    /// Begins to say what a region of so many bytes is to be; [`Allocation::make`] makes it. All its
    /// bytes are zero.
    pub fn allocate(&self, bytes: u64) -> Allocation<'_> {
        Allocation::new(self, bytes)
    }

    /// Gives up this process's session with a server loop, and its window; so does the end of the last
    /// clone and region. Operations on their way end as `Gone`. Regions stay: the next operation that is
    /// delegated begins another session.
    pub fn end_delegation(&self) {
        self.shared.end_delegation();
    }

    /// Returns a handle on the region of this name, among the names of this process's user. All of the
    /// rights are granted, or nothing.
    ///
    /// # Errors
    /// No region has the name, a rule or its owner says no, a limit is reached, or `Unreachable`.
    pub fn map(&self, name: &str, rights: Rights) -> Result<Region, MemoryError> {
        self.map_of(OWN_USER, name, rights)
    }

    /// The same, among the names of another user.
    ///
    /// # Errors
    /// As `map`.
    pub fn map_of(&self, user: u32, name: &str, rights: Rights) -> Result<Region, MemoryError> {
        let name = MemoryName::parse(name).map_err(MemoryError::Name)?;
        let request = MemoryRequest::Map { user, name, rights };
        let mut there = self.clone();
        for _ in 0..region::HOPS_MAX {
            match Region::ask(&there, request.clone()) {
                Err(error) => match moving::moved_to(&error) {
                    Some(node) => there = there.on(node),
                    None => return Err(error),
                },
                found => return found,
            }
        }
        Region::ask(&there, request)
    }

    /// Returns a handle on a region by its identity, for its owner and whom it was appointed to.
    ///
    /// # Errors
    /// As `map`; `Stale` when the region is gone.
    pub fn map_region(&self, region: RegionId, rights: Rights) -> Result<Region, MemoryError> {
        Region::ask(self, MemoryRequest::MapRegion { region, rights })
    }
}

impl Shared {
    pub(crate) fn arenas(&self) -> MutexGuard<'_, Arenas> {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn delegated(&self) -> MutexGuard<'_, Option<Delegated>> {
        self.delegated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region page, mapped at the first need.
    pub(crate) fn page(&self) -> Result<RegionPage, MemoryError> {
        if let Some(page) = self.page.get() {
            return Ok(page.clone());
        }
        let page = arenas::map_page(&self.control)?;
        Ok(self.page.get_or_init(|| page).clone())
    }

    /// This session's presence page, mapped at the first need.
    pub(crate) fn presence(&self) -> Result<Presence, MemoryError> {
        let mut presence = self.presence.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = presence.as_ref() {
            return Ok(page.clone());
        }
        let page = arenas::map_presence(&self.control)?;
        Ok(presence.insert(page).clone())
    }
}
