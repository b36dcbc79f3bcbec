//! The grant: an object of a service, the sessions that hold it, and the limits it counts against.
//!
//! Every service gives out grants by the same rules, so they are written once, here:
//!
//! ```text
//! request -> Revoked (may this session get anything?) -> Grants: the session's limit, then its
//!            user's share of the node's -> an ObjectId, whose generation no other grant ever has
//! end, revoke -> Grants: the session's objects, each taken from it, the last one to leave frees it
//! ```
//!
//! - [`Grants`] are the objects of one kind with their holders; [`Amounts`] count what has no
//!   identity, such as bytes.
//! - [`Quota`] and [`Shares`] say how much a user, a sealed program and the node may have.
//! - [`Refusal`] is an ordinary no: a limit, a revocation, or the service's own [`Reason`].
//! - [`Elsewhere`] are the objects that other nodes have granted to sessions of this one, and
//!   [`PeerSessions`] those on other nodes to whom this one grants something.
//! - [`Rate`] and [`Bucket`] say how often something may be asked; a [`Meter`] how much may be done,
//!   by several threads together.
//!
//! Pure: (state, input) -> answer. No descriptor, no clock, no rule about names.
#![forbid(unsafe_code)]

mod amounts;
mod bucket;
mod buckets;
mod elsewhere;
mod grants;
mod meter;
mod peer_sessions;
mod quota;
mod refusal;
mod revoked;

pub use amounts::Amounts;
pub use bucket::{Bucket, Rate};
pub use buckets::{Buckets, USERS_MAX};
pub use elsewhere::{Elsewhere, Granted, Via};
pub use grants::{Grants, Limit};
pub use meter::Meter;
pub use peer_sessions::{is_of_peer, Peer, PeerSessions, PeerUser};
pub use quota::{Exceeded, Holder, Quota, QuotaTable, Shares, Used};
pub use refusal::{Full, Reason, Refusal};
pub use revoked::Revoked;
