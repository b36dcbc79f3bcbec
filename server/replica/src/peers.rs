//! Requests of other nodes, as the node's thread hears them: all go to the thread of replicas.

use std::sync::mpsc::Sender;

use heliostat_server_node::{Asker, PeerNode, Peers, Served};

use crate::input::Input;

/// The service on the node's thread.
pub struct PeerReplicas(pub(crate) Sender<Input>);

impl Peers for PeerReplicas {
    type Order = ();

    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served {
        // The peer's own window limits how many of these there are.
        let (header, payload) = (header.to_vec(), payload.to_vec());
        let asked = Input::Asked { from: from.peer, ask: from.ask, header, payload };
        match self.0.send(asked) {
            Ok(()) => Served::Later,
            Err(_) => Served::Refuse,
        }
    }

    fn order(&mut self, (): ()) {}

    /// The control plane hears it too, and says so.
    fn lost(&mut self, _: PeerNode) {}
}
