//! What comes from a peer: each message is read once, checked, and given to whom it is for.

use super::peer::{Stage, Want};
use super::{Node, NodeEvent, ALIVE};
use crate::asks::Open;
use crate::calls::Waiting;
use crate::error::{CallError, CallFailure, Effect, LostCause, PeerFault};
use crate::frame::{CallId, Frame, FrameKind, Released};
use crate::greeting::JoinRefusal;
use crate::transport::{LinkEvent, LinkId, Message, SendToken, Transport};
use crate::window::{cost, WindowFault};

impl<T: Transport> Node<T> {
    /// Takes one event of the transport.
    pub(super) fn take(&mut self, now_ns: u64, event: LinkEvent) {
        match event {
            LinkEvent::Opened { link, is_ours } => self.open(now_ns, link, is_ours),
            LinkEvent::Received { link, message } => self.receive(now_ns, link, message),
            LinkEvent::Alive { link } => self.hear(now_ns, link),
            LinkEvent::Sent { link, token } => self.sent(now_ns, link, token),
            LinkEvent::Unsent { token, .. } => self.calls.unsent(CallId::of_token(token)),
            LinkEvent::Ended { link, why } => self.end_peer(now_ns, link, LostCause::Ended(why), 0),
        }
    }

    fn sent(&mut self, now_ns: u64, link: LinkId, token: SendToken) {
        let call = CallId::of_token(token);
        if token == ALIVE {
            self.sent_alive(now_ns, link);
        } else if self.calls.sent(call).is_some() {
            self.events.push(NodeEvent::Posted { call });
        }
        self.offer(link, Want::Queue);
    }

    fn hear(&mut self, now_ns: u64, link: LinkId) {
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.heard_ns = now_ns;
        }
    }

    fn receive(&mut self, now_ns: u64, link: LinkId, message: Message) {
        self.hear(now_ns, link);
        let Some(peer) = self.peers.get(&link) else { return };
        let is_joined = matches!(peer.stage, Stage::Joined(_));
        let fault = match Frame::decode(&message.head, message.payload.len()) {
            Ok(Frame { kind: FrameKind::Handshake(kind), .. }) if !is_joined => {
                self.shake(now_ns, link, kind, &message.payload);
                return;
            }
            Ok(frame) if is_joined => match self.serve(now_ns, link, frame, message.payload) {
                Ok(()) => return,
                Err(fault) => fault,
            },
            Ok(_) => PeerFault::OutOfTurn,
            Err(error) => PeerFault::Frame(error),
        };
        if is_joined {
            self.end_peer(now_ns, link, LostCause::Fault(fault), 0);
        } else {
            self.refuse_join(now_ns, link, JoinRefusal::Malformed, false);
        }
    }

    /// Serves a message of a joined peer.
    fn serve(
        &mut self,
        now_ns: u64,
        link: LinkId,
        frame: Frame,
        payload: Vec<u8>,
    ) -> Result<(), PeerFault> {
        self.learn(link, frame.released)?;
        let cost = cost(frame.header.len(), payload.len());
        match frame.kind {
            FrameKind::Request { call, left_ns } => {
                let deadline_ns = now_ns.saturating_add(left_ns);
                self.ask(link, Some(call), cost, deadline_ns, frame.header, payload)?;
            }
            FrameKind::Post => self.ask(link, None, cost, u64::MAX, frame.header, payload)?,
            FrameKind::Reply { call, is_refusal } => {
                self.release_reply(now_ns, link, cost)?;
                self.conclude(call, link, is_refusal, frame.header, payload);
            }
            FrameKind::Withdraw { call } => {
                let ask = self.asks.withdraw(link, call);
                self.events.extend(ask.map(|ask| NodeEvent::Withdrawn { ask }));
            }
            FrameKind::Alive => {}
            FrameKind::Goodbye => self.end_peer(now_ns, link, LostCause::Left, 0),
            FrameKind::Handshake(_) => return Err(PeerFault::OutOfTurn),
        }
        Ok(())
    }

    /// Takes the credit that each message carries.
    fn learn(&mut self, link: LinkId, released: Released) -> Result<(), WindowFault> {
        let Some(joined) = self.joined_mut(link) else { return Ok(()) };
        let is_more_for_requests = joined.requests_out.learn(released.requests)?;
        let is_more_for_replies = joined.replies_out.learn(released.replies)?;
        if is_more_for_requests || is_more_for_replies {
            self.offer(link, Want::Window);
        }
        Ok(())
    }

    fn ask(
        &mut self,
        link: LinkId,
        call: Option<CallId>,
        cost: u64,
        deadline_ns: u64,
        header: Vec<u8>,
        payload: Vec<u8>,
    ) -> Result<(), PeerFault> {
        let Some(joined) = self.joined_mut(link) else { return Ok(()) };
        joined.requests_in.receive(cost)?;
        let node = joined.theirs.node;
        let wants_reply = call.is_some();
        // No number is left: as if there were no room in the window, which is smaller.
        let ask = self.asks.begin(Open { link, call, cost }).ok_or(PeerFault::OutOfTurn)?;
        self.events.push(NodeEvent::Request {
            ask,
            link,
            node,
            header,
            payload,
            deadline_ns,
            wants_reply,
        });
        Ok(())
    }

    /// A reply is at its end as it comes: whoever waits for it has it.
    fn release_reply(&mut self, now_ns: u64, link: LinkId, cost: u64) -> Result<(), WindowFault> {
        let Some(joined) = self.joined_mut(link) else { return Ok(()) };
        joined.replies_in.receive(cost)?;
        joined.replies_in.release(cost);
        self.tell(now_ns, link);
        Ok(())
    }

    fn conclude(
        &mut self,
        call: CallId,
        link: LinkId,
        is_refusal: bool,
        header: Vec<u8>,
        payload: Vec<u8>,
    ) {
        let Some(Waiting { node, .. }) = self.calls.answer(call, link) else {
            self.counters.late_replies += 1;
            return;
        };
        self.events.push(if is_refusal {
            let why = CallFailure::Refused;
            NodeEvent::Failed {
                call,
                error: CallError { node: Some(node), effect: Effect::Refused, why },
            }
        } else {
            NodeEvent::Answered { call, node, header, payload }
        });
    }
}
