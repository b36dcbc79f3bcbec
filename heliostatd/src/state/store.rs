//! The store: the thread that has it, its areas and who has which, and the loops.
//!
//! ```text
//!        attach, or the configuration         opened
//! None ------------------------------> Opening ------> Open -- detach --> None
//!   ^                                     |              | the device fails
//!   '------------- why not ---------------'              `--> Open, and refuses all
//! ```

mod loops;
mod open;
mod thread;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::store::{AreaName, AreaRights, WayWanted};
use heliostat_service_store::Question;
use rustix::event::{eventfd, EventfdFlags};

pub use loops::StoreLoops;
pub use open::{OpenStore, Told};
pub use thread::{Changed, Event, Facts, Found, Numbers, Opening, StoreThread, Teller};

/// Whether there is a store.
pub enum State {
    /// There is none, and why; an empty text where nobody has named one.
    None(String),
    /// Its thread opens it.
    Opening {
        /// Where it lies, for people.
        place: String,
        /// Who has asked for it and waits.
        waiter: Option<Question>,
    },
    /// It is there.
    Open(Box<OpenStore>),
}

/// What a session waits for that has asked the store for a change.
#[derive(Clone, Debug)]
pub enum Pending {
    /// An area is made, and is to be opened then.
    Create {
        /// Its name, among those of the session's user.
        name: AreaName,
        /// What the handle is to allow.
        rights: AreaRights,
        /// By which way.
        way: WayWanted,
    },
    /// An area gets another size.
    Resize,
    /// Anything that is answered with Done.
    Other,
}

/// What the daemon keeps of the store.
pub struct KeptStore {
    /// Whether there is one.
    pub state: State,
    /// Its thread, while it opens or has it.
    pub thread: Option<StoreThread>,
    /// The loops that serve who is not direct, once somebody has asked.
    pub loops: Option<StoreLoops>,
    /// Sessions that wait, each for one change.
    pub waiting: HashMap<Question, Pending>,
    /// Rings when the thread or a loop has told something.
    pub bell: Arc<OwnedFd>,
}

impl KeptStore {
    /// There is none yet.
    ///
    /// # Errors
    /// The kernel has no descriptor for the bell.
    pub fn new() -> std::io::Result<KeptStore> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let state = State::None(String::new());
        Ok(KeptStore { state, thread: None, loops: None, waiting: HashMap::new(), bell })
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
