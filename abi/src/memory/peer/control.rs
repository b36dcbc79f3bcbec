//! A request about regions to the control plane of another node; it answers with a `PeerReply`.
//!
//! ```text
//! 0 kind u16 (256), number u16, user u32, flags u32 (1 restricted), process u32, 112 bytes body
//! ```
//! The body is that of the same request of a program (`request`), whose handle is one of those that the
//! user has there. Only what needs no descriptor can be asked.

use crate::memory::MemoryRequest;
use crate::peer::CONTROL_KIND;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const RESTRICTED: u32 = 1;
/// Bytes of a request's header.
pub const CONTROL_BYTES: usize = 16 + REQUEST_BODY_BYTES;

/// What a user of another node asks of this control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerControl {
    /// Who, by that node's word.
    pub user: u32,
    /// Whether the program is restricted there: then it is somebody else than its user.
    pub is_restricted: bool,
    /// By which process there, for people.
    pub process: u32,
    /// What.
    pub request: MemoryRequest,
}

impl PeerControl {
    /// The header.
    pub fn encode(&self) -> [u8; CONTROL_BYTES] {
        let mut bytes = [0; CONTROL_BYTES];
        let own = self.request.encode();
        let mut w = Writer::new(&mut bytes);
        let flags = if self.is_restricted { RESTRICTED } else { 0 };
        w.u16(CONTROL_KIND)
            .u16(own.number)
            .u32(self.user)
            .u32(flags)
            .u32(self.process)
            .put(&own.body);
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
        let (user, flags, process) = (r.u32(), r.u32(), r.u32());
        if kind != CONTROL_KIND {
            return Err(WireError::Kind { found: kind });
        }
        if flags & !RESTRICTED != 0 {
            return Err(WireError::Field { name: "flags", found: u64::from(flags) });
        }
        let request = MemoryRequest::decode(&OwnRequest { number, body: r.take() })?;
        if !may_be_asked(&request) {
            return Err(WireError::Kind { found: number });
        }
        Ok(Self { user, is_restricted: flags & RESTRICTED != 0, process, request })
    }
}

/// Whether a node may ask another one for that.
fn may_be_asked(request: &MemoryRequest) -> bool {
    use MemoryRequest::*;
    match request {
        Allocate(_) | Map { .. } | MapRegion { .. } | Locate { .. } | Unmap { .. } => true,
        Free { .. } | Grow { .. } | Name { .. } | Appoint { .. } | Lasting { .. } => true,
        List { .. } | Move { .. } | MoveState { .. } => true,
        Stage(_) | Adopt { .. } => true,
        Arena { .. } | RegionPage | Presence | Session | AskMe { .. } | NextAsked => false,
        Answer { .. } | EndSession | On { .. } | Replicate(_) | Class { .. } => false,
    }
}
