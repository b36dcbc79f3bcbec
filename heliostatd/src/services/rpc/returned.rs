//! Functions of other nodes that are given back, and what those nodes say to it.

use heliostat_abi::code::Code;
use heliostat_abi::peer::PeerReply;
use heliostat_abi::rpc::RpcRequest;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{Effect, Outcome};
use heliostat_service_rpc::Remote;

use crate::daemon::Daemon;
use crate::state::returns::Return;
use crate::state::rpc::Waiting;

impl Daemon {
    /// Tells a node that a session uses its function no more. Where the link is over it knows.
    pub(super) fn give_function_back(&mut self, returned: Return<Remote>) {
        let remote = returned.remote;
        let peer = self.joined_node(remote.node).filter(|it| it.link.0 == remote.link);
        let Some(peer) = peer else { return };
        let may = self.services.rpc.across.asks.may_return(remote.node);
        let (user, its) = (remote.user, Some(returned));
        let waiting = Waiting { waiter: None, peer, user, wants_function: false, returned: its };
        let function = remote.info.function;
        let leave = RpcRequest::Leave { function, serves: false, calls: true };
        if !may || self.send_to_rpc_peer(waiting, 0, remote.user_there, leave).is_err() {
            self.services.rpc.across.unreturned.put_off(monotonic_ns(), returned);
        }
    }

    /// A node has said whether it takes a function back. Where it says that it did not, it is told again.
    /// Where nobody knows it is not: uses are counted there, and this one may be counted already.
    pub(super) fn take_returned_function(&mut self, returned: Return<Remote>, outcome: Outcome) {
        let is_kept = match outcome {
            Ok(reply) => matches!(
                PeerReply::decode(&reply.header, &reply.payload),
                Ok(PeerReply::Refused { code: Code::Full | Code::Internal, .. })
            ),
            Err(error) => error.effect != Effect::Unknown,
        };
        if is_kept {
            self.services.rpc.across.unreturned.keep(monotonic_ns(), returned);
        }
    }

    /// Answers those that have waited long enough for another node, and gives back what could not be.
    pub(crate) fn end_late_finds(&mut self, now_ns: u64) {
        let across = &mut self.services.rpc.across;
        if across.next_ns().is_none_or(|until| now_ns < until) {
            return;
        }
        for returned in across.unreturned.take(now_ns) {
            self.give_function_back(returned);
        }
        let late = self.services.rpc.across.asks.expire(now_ns);
        self.answer_waiters(late, Code::Unreachable);
    }
}
