//! Remote procedure calls between programs: functions that a program serves, and functions that it calls.
//!
//! ```text
//! publish --> Service: receive, reply, reply_and_receive     find --> Function: call, send, begin
//!                 ^                                                         |
//!                 '------------- server loop: matches, copies <-------------'
//! ```
//! Any thread may use any of these. Several threads, and several processes of a user, may serve one
//! function: a call goes to whoever is free. A call that fails says whether it may have had an effect
//! ([`RpcError::may_have_run`]). `docs/rpc.md` tells the whole.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod ask;
mod error;
mod function;
mod link;
mod listing;
mod multicast;
mod node;
mod pending;
mod publication;
mod received;
mod service;
mod slots;
mod uses;

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_client::{session, OwnSession};

pub use error::{NotDelivered, RpcError, Unanswered};
pub use function::Function;
pub use heliostat_abi::name::ObjectId as FunctionId;
pub use heliostat_abi::rpc::limits::{MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MAX};
pub use heliostat_abi::rpc::name::OWN_USER;
pub use heliostat_abi::rpc::ListedFunction;
pub use multicast::multicast;
pub use node::NodeRpc;
pub use pending::PendingCall;
pub use publication::PublicationBuilder;
pub use received::{Call, Caller};
pub use service::{Next, Service};

use link::Link;
use uses::Uses;

/// This process's access to remote procedure calls, in one session with the control plane. Clones are
/// the same.
///
/// A child of a fork opens its own: functions are its parent's.
#[derive(Clone)]
pub struct Rpc {
    shared: Arc<Shared>,
}

/// What the functions of one session share.
pub(crate) struct Shared {
    pub(crate) control: OwnSession,
    pub(crate) uses: Uses,
    link: Mutex<Option<Arc<Link>>>,
}

impl Rpc {
    /// Opens it, where `session::configure` or `heliostat run` has said that the control plane is.
    ///
    /// # Errors
    /// No control plane answers.
    pub fn open() -> Result<Rpc, RpcError> {
        // A session that has ended is noticed here, so that the next one is asked.
        session::check_alive();
        let control = OwnSession::new(session::standing().map_err(RpcError::Control)?);
        let uses = Uses::default();
        Ok(Rpc { shared: Arc::new(Shared { control, uses, link: Mutex::new(None) }) })
    }

    /// Begins to say what a function of this name is; [`PublicationBuilder::serve`] serves it.
    pub fn publish<'a>(&'a self, name: &'a str) -> PublicationBuilder<'a> {
        PublicationBuilder::new(self, name)
    }

    /// Returns the function of this name, among those of this process's user.
    ///
    /// # Errors
    /// Nobody serves it, a rule says no, or a limit is reached.
    pub fn find(&self, name: &str) -> Result<Function, RpcError> {
        self.find_of(OWN_USER, name)
    }

    /// The same, among those of another user.
    ///
    /// # Errors
    /// As `find`.
    pub fn find_of(&self, user: u32, name: &str) -> Result<Function, RpcError> {
        self.on(THIS_NODE).find_of(user, name)
    }

    /// Functions of another node of the cluster, by its number, or of this one.
    pub fn on(&self, node: u32) -> NodeRpc {
        NodeRpc::new(self.shared.clone(), node)
    }
}

impl Shared {
    /// This process's session with the loop, which begins at its first use.
    pub(crate) fn link(&self) -> Result<Arc<Link>, RpcError> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        let begun = Arc::new(Link::begin(&self.control)?);
        Ok(link.insert(begun).clone())
    }
}
