//! A request about functions to the control plane of another node; it answers with a `PeerReply`.
//!
//! ```text
//! 0 kind u16 (256), number u16, user u32, process u32, user's session there, 112 bytes body
//! ```
//! The body is that of the same request of a program; Find, Leave and List can be asked. A Leave names
//! the session that the function was granted to, the others none.

use crate::name::ObjectId;
use crate::peer::CONTROL_KIND;
use crate::rpc::RpcRequest;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// Bytes of a request's header.
pub const CONTROL_BYTES: usize = 20 + REQUEST_BODY_BYTES;

/// What a user of another node asks of this control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerControl {
    /// Who, by that node's word.
    pub user: u32,
    /// By which process there, for people.
    pub process: u32,
    /// What that user is here, where it was told before.
    pub session: ObjectId,
    /// What.
    pub request: RpcRequest,
}

impl PeerControl {
    /// Whether a header is a request to the control plane, and not a message to its loop.
    pub fn is_one(header: &[u8]) -> bool {
        header.starts_with(&CONTROL_KIND.to_le_bytes())
    }

    /// The header.
    pub fn encode(&self) -> [u8; CONTROL_BYTES] {
        let mut bytes = [0; CONTROL_BYTES];
        let own = self.request.encode();
        let mut w = Writer::new(&mut bytes);
        w.u16(CONTROL_KIND).u16(own.number).u32(self.user).u32(self.process);
        self.session.encode(&mut w);
        w.put(&own.body);
        bytes
    }

    /// The request in a foreign header.
    ///
    /// # Errors
    /// It is none, or none that another node may make.
    pub fn decode(header: &[u8]) -> Result<Self, WireError> {
        if header.len() != CONTROL_BYTES {
            return Err(WireError::Length { wanted: CONTROL_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (kind, number) = (r.u16(), r.u16());
        let (user, process) = (r.u32(), r.u32());
        let session = ObjectId::decode(&mut r);
        if kind != CONTROL_KIND {
            return Err(WireError::Kind { found: kind });
        }
        let request = RpcRequest::decode(&OwnRequest { number, body: r.take() })?;
        let may_be_asked = match &request {
            RpcRequest::Find { .. } | RpcRequest::Leave { .. } | RpcRequest::List { .. } => true,
            RpcRequest::Publish(_) | RpcRequest::Session | RpcRequest::ListOn { .. } => false,
        };
        if !may_be_asked {
            return Err(WireError::Kind { found: number });
        }
        Ok(Self { user, process, session, request })
    }
}
