//! The cluster as another node sees it: that node is asked, and the session waits for its answer.
//!
//! ```text
//! NodesOf --> call_node: from u64 --> node_asked there --> reply_node: the list's record
//!         <-- answer_late_to <-- node_answered
//! ```

use heliostat_abi::cluster::request::SERVICE;
use heliostat_abi::cluster::{ClusterReply, Listed};
use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{OwnReply, Reply, REPLY_BODY_BYTES};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{NodeCall, NodeId, NodeReply, Outcome};
use tracing::debug;

use super::requests::reply;
use crate::answer::Answer;
use crate::daemon::{Daemon, NodeAsked};
use crate::refused::Refused;

/// How long another node may take to say which nodes it sees: less than a program waits for an answer.
const LIST_NS_MAX: u64 = 300_000_000;

impl Daemon {
    /// Asks another node. The answer is held back until it comes.
    pub(super) fn list_elsewhere(
        &mut self,
        id: ObjectId,
        node: u64,
        from: u64,
    ) -> Result<Answer, Refused> {
        let (started_ns, now) = (self.started_ns, monotonic_ns());
        if self.own_node() == Some(node) {
            let cluster = self.services.cluster.as_mut().ok_or(Code::BadState)?;
            return Ok(reply(cluster.list(from, started_ns, now)));
        }
        let cluster = self.services.cluster.as_ref().ok_or(Code::BadState)?;
        cluster.members.member(node).ok_or(Code::NotFound)?;
        let token = cluster.next_list();
        let call = NodeCall {
            node: NodeId(node),
            link: None,
            service: SERVICE,
            header: from.to_le_bytes().to_vec(),
            payload: Vec::new(),
            deadline_ns: now.saturating_add(LIST_NS_MAX),
        };
        self.call_node(token, call).map_err(|error| {
            debug!(session = %id, %error, "another node was not asked");
            Code::Unreachable
        })?;
        let sequence = self.answer_later_as(id).ok_or(Code::Internal)?;
        if let Some(cluster) = &mut self.services.cluster {
            cluster.lists.insert(token, (id, sequence));
        }
        // Not sent: `answer_later_as` says so.
        Ok(Reply::Done.into())
    }

    /// Another node's answer is here, or none will be.
    pub(super) fn listed_elsewhere(&mut self, token: u64, outcome: Outcome) {
        let waiting = self.services.cluster.as_mut().and_then(|it| it.lists.remove(&token));
        let Some((id, sequence)) = waiting else { return };
        let listed = outcome.map_err(|error| error.to_string()).and_then(|it| decode(&it));
        let answer = listed.map(reply).map_err(|error| {
            debug!(session = %id, error, "another node gave no list");
            Code::Unreachable.into()
        });
        self.answer_late_to(id, sequence, answer);
    }

    /// Another node wants to know which nodes this one sees: no more than everybody here may know.
    pub(super) fn list_for_node(&mut self, asked: &NodeAsked) {
        let (started_ns, now) = (self.started_ns, monotonic_ns());
        let from = <[u8; 8]>::try_from(asked.header.as_slice()).map(u64::from_le_bytes);
        let is_waited_for = asked.payload.is_empty() && asked.deadline_ns > now;
        let cluster = self.services.cluster.as_mut().filter(|_| is_waited_for);
        let (Ok(from), Some(cluster)) = (from, cluster) else { return self.refuse_node(asked.ask) };
        let listed = cluster.list(from, started_ns, now);
        let OwnReply { number, body } = ClusterReply::Listed(listed).encode();
        self.reply_node(asked.ask, number.to_le_bytes().to_vec(), body.to_vec());
    }
}

/// A list that another node sent: foreign bytes.
fn decode(reply: &NodeReply) -> Result<Listed, String> {
    let number = <[u8; 2]>::try_from(reply.header.as_slice()).map(u16::from_le_bytes);
    let body = <[u8; REPLY_BODY_BYTES]>::try_from(reply.payload.as_slice());
    let (Ok(number), Ok(body)) = (number, body) else { return Err("it is no record".to_owned()) };
    let ClusterReply::Listed(listed) =
        ClusterReply::decode(&OwnReply { number, body }).map_err(|error| error.to_string())?;
    Ok(listed)
}
