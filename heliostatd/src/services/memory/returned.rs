//! Handles on other nodes that are given back, and what those say to it.

use heliostat_abi::cluster::Class;
use heliostat_abi::code::Code;
use heliostat_abi::memory::peer::PeerReply;
use heliostat_abi::memory::MemoryRequest;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_memory::is_replicated;
use heliostat_server_node::{LinkId, Outcome};
use heliostat_service_memory::Remote;

use crate::daemon::Daemon;
use crate::state::memory::{Waiting, Wanted};
use crate::state::returns::Return;

impl Daemon {
    /// Tells a node that nobody has this handle any more. Where it is lost it knows.
    pub(super) fn give_back_remote(&mut self, returned: Return<Remote>) {
        let remote = returned.remote;
        if is_replicated(LinkId(remote.link)) {
            return self.close_replicated(remote.there);
        }
        let Some(peer) = self.node_of(&remote) else { return };
        let Remote { user, is_restricted, there, .. } = remote;
        let (waiter, wanted, class) = (None, Wanted::Answer, Class::Normal);
        let its = Some(returned);
        let waiting = Waiting { waiter, peer, user, is_restricted, wanted, class, returned: its };
        let unmap = MemoryRequest::Unmap { handle: there.handle };
        let may = self.services.memory.across.asks.may_return(remote.node);
        if !may || self.send_to_peer(waiting, 0, unmap).is_err() {
            // As many calls wait as may: a session that ends may have had thousands.
            self.services.memory.across.unreturned.put_off(monotonic_ns(), returned);
        }
    }

    /// A node has said whether it takes a handle back. Where it did not, since it has too much to do, or
    /// nobody knows, it is asked again: a handle that it has taken back it refuses, and that is the end.
    pub(super) fn take_returned(&mut self, returned: Return<Remote>, outcome: Outcome) {
        let reply = outcome.map(|reply| PeerReply::decode(&reply.header, &reply.payload));
        match reply {
            Ok(Ok(PeerReply::Refused { code: Code::Full | Code::Internal, .. })) | Err(_) => {
                self.services.memory.across.unreturned.keep(monotonic_ns(), returned);
            }
            Ok(_) => {}
        }
    }
}
