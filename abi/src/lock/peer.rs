//! What nodes ask each other of locks: requests to the node that a name is on, and news from it.
//!
//! ```text
//! 0  kind u16, number u16, user u32, process u32, 0 u32
//! 16 session, 112 bytes body              kind
//!                                         1 Ask   of a session: a request of this service, its body
//!                                         2 End   of a session: what it has there ends; no body
//!                                         3 News  no session, no body; payload: entries of 32 bytes:
//!                                                   session, ticket, outcome
//! ```
//! Sessions are those of the asking node, by its own names for them; in News they are those of the node
//! that is told. The answer is a [`PeerReply`], to End and News it is Done.

use super::limits::NEWS_MAX;
use super::reply::{Event, EVENT_BYTES};
use super::request::LockRequest;
use crate::name::ObjectId;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

pub use crate::peer::{elsewhere, place_elsewhere, PeerReply};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24 + REQUEST_BODY_BYTES;
const NEWS_BYTES: usize = 8 + EVENT_BYTES;

/// What became of a ticket that another node's session has here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerNews {
    /// Whose: a session of the node that is told.
    pub session: ObjectId,
    /// What.
    pub event: Event,
}

/// What a node asks another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerLock {
    /// A session asks something.
    Ask {
        /// Its user, by that node's word.
        user: u32,
        /// Its process there, for people.
        process: u32,
        /// The session, by its name there.
        session: ObjectId,
        /// What it asks.
        request: LockRequest,
    },
    /// A session has ended, or was revoked.
    End {
        /// Which.
        session: ObjectId,
    },
    /// What became of tickets, in order.
    News(Vec<PeerNews>),
}

impl PeerLock {
    /// Header and payload.
    pub fn encode(&self) -> ([u8; HEADER_BYTES], Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        let mut w = Writer::new(&mut header);
        let mut payload = Vec::new();
        match self {
            Self::Ask { user, process, session, request } => {
                let own = request.encode();
                w.u16(1).u16(own.number).u32(*user).u32(*process).u32(0);
                session.encode(&mut w);
                w.put(&own.body);
            }
            Self::End { session } => {
                w.u16(2).u16(0).u32(0).u32(0).u32(0);
                session.encode(&mut w);
            }
            Self::News(news) => {
                w.u16(3);
                payload = vec![0; news.len() * NEWS_BYTES];
                for (entry, place) in news.iter().zip(payload.chunks_exact_mut(NEWS_BYTES)) {
                    let mut w = Writer::new(place);
                    entry.session.encode(&mut w);
                    entry.event.encode(&mut w);
                }
            }
        }
        (header, payload)
    }

    /// What a foreign header and payload say.
    ///
    /// # Errors
    /// Nothing that a node may ask; the value says which field.
    pub fn decode(header: &[u8], payload: &[u8]) -> Result<Self, WireError> {
        if header.len() != HEADER_BYTES {
            return Err(WireError::Length { wanted: HEADER_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (kind, number, user, process, zero) = (r.u16(), r.u16(), r.u32(), r.u32(), r.u32());
        let session = ObjectId::decode(&mut r);
        let asked = match kind {
            1 => {
                let request = LockRequest::decode(&OwnRequest { number, body: r.take() })?;
                if !may_be_asked(&request) {
                    return Err(WireError::Kind { found: number });
                }
                Self::Ask { user, process, session, request }
            }
            2 => Self::End { session },
            3 => Self::News(take_news(payload)?),
            found => return Err(WireError::Kind { found }),
        };
        // One message has one form.
        let is_long = kind != 3 && !payload.is_empty();
        if zero != 0 || is_long || kind != 1 && asked.encode().0 != *header {
            return Err(WireError::Reserved);
        }
        Ok(asked)
    }
}

fn take_news(payload: &[u8]) -> Result<Vec<PeerNews>, WireError> {
    let count = payload.len() / NEWS_BYTES;
    if count > NEWS_MAX || payload.len() % NEWS_BYTES != 0 {
        return Err(WireError::Length { wanted: NEWS_MAX * NEWS_BYTES, found: payload.len() });
    }
    let entries = payload.chunks_exact(NEWS_BYTES).map(|entry| {
        let mut r = Reader::new(entry);
        Ok(PeerNews { session: ObjectId::decode(&mut r), event: Event::decode(&mut r)? })
    });
    entries.collect()
}

/// Whether a node may ask another one for that.
fn may_be_asked(request: &LockRequest) -> bool {
    use LockRequest::*;
    match request {
        Open { .. } | Close { .. } | Acquire { .. } | Release { .. } | Cancel { .. } => true,
        Arrive { .. } | Reset { .. } | List { .. } => true,
        Next | Bell | On { .. } => false,
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
