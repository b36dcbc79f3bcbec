//! The store: the thread that has it, its areas and who has which, and the loops.
//!
//! ```text
//!        attach, or the configuration         opened
//! None ------------------------------> Opening ------> Open -- detach --> None
//!   ^                                     |              | the device fails
//!   '------------- why not ---------------'              `--> Open, and refuses all
//! ```

mod choice;
mod distrust;
mod kept;
mod loops;
mod open;
mod thread;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{Alone, AreaName, AreaRights, WayWanted};
use heliostat_service_store::{Answered, Refusal};
use rustix::event::{eventfd, EventfdFlags};

pub use distrust::is_distrusted;
pub use kept::Kept;
pub use loops::{durability, StoreLoops};
pub use open::{OpenStore, Told};
pub use thread::{Changed, Event, Found, Numbers, Opening, Place, StoreThread};

/// Whether there is a store.
pub enum State {
    /// There is none, and why; an empty text where nobody has named one.
    None(String),
    /// Its thread opens it.
    Opening {
        /// Where it lies, for people.
        place: String,
        /// Who has asked for it and waits.
        waiter: Option<(ObjectId, u32)>,
    },
    /// It is there.
    Open(Box<OpenStore>),
}

/// How an area is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// What the handle is to allow.
    pub rights: AreaRights,
    /// By which way.
    pub way: WayWanted,
    /// Whether no other session may write it.
    pub alone: Alone,
}

/// What a session waits for that has asked the store for a change.
#[derive(Clone, Debug)]
pub enum Pending {
    /// An area is made, and is to be opened then.
    Create {
        /// Its name, among those of the session's user.
        name: AreaName,
        /// How it is to be opened.
        wish: Wish,
    },
    /// An area gets another size.
    Resize,
    /// Anything that is answered with Done.
    Other,
}

/// A change that a session has asked for.
#[derive(Debug)]
pub struct Waiting {
    /// Which.
    pub pending: Pending,
    /// By which number the service knows it.
    pub number: u64,
    /// The session's request that is answered with its outcome; none after it was answered with
    /// `Later`, until the session asks again.
    pub sequence: Option<u32>,
    /// When that is answered with `Later`.
    pub until_ns: u64,
    /// How it has ended, once it has.
    pub outcome: Option<Result<Answered, Refusal>>,
}

/// What the daemon keeps of the store.
pub struct KeptStore {
    /// Whether there is one.
    pub state: State,
    /// Its thread, while it opens or has it.
    pub thread: Option<StoreThread>,
    /// The loops that serve who is not direct, once somebody has asked.
    pub loops: Option<StoreLoops>,
    /// Sessions that wait for a change, or will ask how it has ended.
    pub waiting: HashMap<ObjectId, Waiting>,
    /// Rings when the thread or a loop has told something.
    pub bell: Arc<OwnedFd>,
    /// What outlives this control plane.
    pub kept: Kept,
}

impl KeptStore {
    /// There is none yet.
    ///
    /// # Errors
    /// The kernel has no descriptor for the bell.
    pub fn new() -> std::io::Result<KeptStore> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (state, kept) = (State::None(String::new()), Kept::default());
        Ok(KeptStore { state, thread: None, loops: None, waiting: HashMap::new(), bell, kept })
    }

    /// When a session is answered that its change takes longer.
    pub fn next_ns(&self) -> Option<u64> {
        let waits = self.waiting.values().filter(|it| it.sequence.is_some());
        waits.map(|it| it.until_ns).min()
    }

    /// The store, if it is open.
    pub fn open(&self) -> Option<&OpenStore> {
        match &self.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    /// The same, to change.
    pub fn open_mut(&mut self) -> Option<&mut OpenStore> {
        match &mut self.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }
}
