//! On the node's thread: what other nodes say about calls goes to the loop, which answers it.

use heliostat_abi::rpc::peer::{PeerAnswer, PeerControl, PeerMessage};
use heliostat_server_loop::{Gate, Order};
use heliostat_server_node::{Asker, PeerNode, Peers, Served};

use crate::between::FarAsked;
use crate::message::RpcOrder;
use crate::rpcs::Rpcs;

/// Calls of other nodes, on the node's thread. It is ordered the way to the loop, once there is one.
#[derive(Default)]
pub struct PeerCalls {
    gate: Option<Gate<Rpcs>>,
}

impl Peers for PeerCalls {
    type Order = Gate<Rpcs>;

    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served {
        if PeerControl::is_one(header) {
            return Served::Forward;
        }
        let Ok(message) = PeerMessage::decode(header) else {
            let header = PeerAnswer::Malformed.encode().to_vec();
            return Served::Reply { header, payload: Vec::new() };
        };
        let Some(gate) = &self.gate else { return Served::Refuse };
        let asked = FarAsked { from, message, payload: payload.to_vec() };
        gate.send(Order::Service(RpcOrder::Asked(Box::new(asked))));
        Served::Later
    }

    fn order(&mut self, gate: Gate<Rpcs>) {
        self.gate = Some(gate);
    }

    fn lost(&mut self, peer: PeerNode) {
        if let Some(gate) = &self.gate {
            gate.send(Order::Service(RpcOrder::Lost(peer)));
        }
    }
}
