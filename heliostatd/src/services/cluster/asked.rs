//! What services do alike with what goes between control planes: whom of another node is believed, and
//! what an answer is.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::peer::PeerReply;
use heliostat_abi::session::record::Reply;
use heliostat_control::rights::Subject;
use heliostat_server_node::{Outcome, PeerNode};
use heliostat_service_grant::Via;
use tracing::debug;

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::Refused;

/// No group of this node: those of other nodes' users are not asked for.
const NO_GROUP: u32 = u32::MAX;
/// What names nobody in particular in a request: of another node it would name nobody at all.
const NOBODY: u32 = u32::MAX;

/// A user of another node, whose groups are unknown.
pub(crate) fn peer_subject(user: u32) -> Subject {
    Subject::new(user, NO_GROUP)
}

/// The node and link by which something is granted.
pub(crate) fn via(peer: PeerNode) -> Via {
    Via { node: peer.node.0, link: peer.link.0 }
}

/// What another control plane says, if it says something.
///
/// # Errors
/// Unreachable: it has not answered, or what it answered is none.
pub(crate) fn said_by(peer: PeerNode, outcome: Outcome) -> Result<PeerReply, Refused> {
    let reply = outcome.map_err(|error| {
        debug!(%error, "another node has not answered");
        Refused::from(Code::Unreachable)
    })?;
    PeerReply::decode(&reply.header, &reply.payload).map_err(|error| {
        debug!(node = %peer.node, %error, "another node's answer is none");
        Code::Unreachable.into()
    })
}

/// An answer to another node, who is this session here.
pub(crate) fn to_peer(session: ObjectId, answer: Answer) -> Result<PeerReply, Refused> {
    match answer.reply {
        Reply::Own(reply) => Ok(PeerReply::Own { session, reply }),
        Reply::Done => Ok(PeerReply::Done),
        _ => Err(Code::Internal.into()),
    }
}

impl Daemon {
    /// Refuses who is no user of another node, or whom this node does not believe.
    pub(crate) fn check_peer_user(&self, user: u32) -> Result<(), Refused> {
        let cluster = self.parts.config.cluster.as_ref();
        if !cluster.is_some_and(|cluster| cluster.trusts_users) {
            return Err(Code::Denied.into());
        }
        if user == NOBODY {
            return Err(Code::BadRecord.into());
        }
        Ok(())
    }

    /// What another node is told, and counts what is refused.
    pub(crate) fn reply_or_refusal(&mut self, answer: Result<PeerReply, Refused>) -> PeerReply {
        answer.unwrap_or_else(|Refused { code, limit, bound }| {
            self.counts.refused(code);
            PeerReply::Refused { code, limit, bound }
        })
    }
}
