//! What comes by UCX: who knocks, what they say, and the payloads that are fetched.

use heliostat_backend_transport::limits::PAYLOAD_BYTES_MAX;
use heliostat_backend_transport::tcp::framing::STRANGER_PAYLOAD_BYTES_MAX;
use heliostat_backend_transport::transport::{
    EndCause, LinkEvent, LinkId, Malformation, Message, SendToken,
};

use super::{Ucx, ENDPOINTS_MAX};
use crate::binding::{Announced, Happening, Knock};
use crate::inbox::{Inbox, NUMBER_BYTES};

impl Ucx {
    /// Takes what UCX says happened.
    pub(super) fn take(&mut self, happening: Happening, events: &mut Vec<LinkEvent>) {
        match happening {
            Happening::Knocked(knock) => self.let_in(knock, events),
            Happening::Message { key, header, payload } => {
                self.receive(LinkId(key), events, |inbox| inbox.take_in(&header, payload));
            }
            Happening::Announced { key, header, payload } => {
                self.announce(LinkId(key), &header, payload, events)
            }
            Happening::Received { key, header, payload } => {
                self.complete(LinkId(key), &header, payload, events)
            }
            Happening::Sent { key, token, status } => {
                self.sent(LinkId(key), SendToken(token), status, events)
            }
            Happening::Failed { key, status } => {
                let id = LinkId(key);
                let why =
                    self.links.get(&id).map_or(EndCause::Closed, |link| link.end_cause(status));
                self.end(id, why, events);
            }
        }
    }

    fn let_in(&mut self, knock: Knock, events: &mut Vec<LinkEvent>) {
        if self.links.len() >= ENDPOINTS_MAX {
            self.worker.reject(knock);
            return;
        }
        let link = self.add(false);
        match self.worker.accept(link.0, knock) {
            Ok(()) => events.push(LinkEvent::Opened { link, is_ours: false }),
            // Who knocked is gone already.
            Err(_) => {
                self.links.remove(&link);
            }
        }
    }

    /// Puts what came into its link's inbox, and hands out what has its turn.
    fn receive(
        &mut self,
        id: LinkId,
        events: &mut Vec<LinkEvent>,
        put: impl FnOnce(&mut Inbox<Announced>) -> Result<(), Malformation>,
    ) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.lingers_until_ns.is_none())
        else {
            return;
        };
        link.has_spoken = true;
        let before = events.len();
        match put(&mut link.inbox) {
            Ok(()) => self.hand_out(id, events),
            Err(what) => self.end(id, EndCause::Malformed(what), events),
        }
        if events.len() == before {
            // Signs of life come while a long payload before them is still being fetched.
            events.push(LinkEvent::Alive { link: id });
        }
    }

    fn announce(
        &mut self,
        id: LinkId,
        header: &[u8],
        payload: Announced,
        events: &mut Vec<LinkEvent>,
    ) {
        let bytes = payload.bytes;
        let mut refused = Some(payload);
        self.receive(id, events, |inbox| match refused.take() {
            Some(payload) => inbox.announce(header, payload, bytes).map_err(|(what, payload)| {
                refused = Some(payload);
                what
            }),
            None => Ok(()),
        });
        if let Some(payload) = refused {
            self.worker.discard(payload);
        }
    }

    fn complete(
        &mut self,
        id: LinkId,
        header: &[u8],
        payload: Result<Vec<u8>, i32>,
        events: &mut Vec<LinkEvent>,
    ) {
        let Some((number, head)) = header.split_first_chunk::<NUMBER_BYTES>() else { return };
        match payload {
            Ok(payload) => self.receive(id, events, |inbox| {
                inbox.complete(
                    u64::from_le_bytes(*number),
                    Message { head: head.to_vec(), payload },
                );
                Ok(())
            }),
            Err(code) => self.end(id, EndCause::Broken { code }, events),
        }
    }

    /// Hands out the messages that have their turn: all of an admitted link, one of a stranger, since
    /// what it says may be what admits it.
    pub(super) fn hand_out(&mut self, id: LinkId, events: &mut Vec<LinkEvent>) {
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            let bytes_max =
                if link.is_admitted { PAYLOAD_BYTES_MAX } else { STRANGER_PAYLOAD_BYTES_MAX };
            match link.inbox.take(bytes_max) {
                Ok(Some(message)) => events.push(LinkEvent::Received { link: id, message }),
                Ok(None) => break,
                // What admits the other side may be handed out and not read yet: `admit` looks again.
                Err(_) if link.is_ours && !link.is_admitted => return,
                Err(what) => return self.end(id, EndCause::Malformed(what), events),
            }
            if !link.is_admitted {
                self.ready.insert(id);
                return;
            }
        }
        self.fetch(id);
    }

    /// Fetches the payloads that an admitted link has announced.
    fn fetch(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_admitted) else { return };
        while let Some((number, head, payload)) = link.inbox.next_away() {
            let header = [number.to_le_bytes().as_slice(), &head].concat();
            self.worker.receive(id.0, header, payload);
        }
    }

    fn sent(&mut self, id: LinkId, token: SendToken, status: i32, events: &mut Vec<LinkEvent>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.queued = link.queued.saturating_sub(1);
        // A message that failed ends its link, which UCX tells apart.
        if status == 0 && link.lingers_until_ns.is_none() {
            events.push(LinkEvent::Sent { link: id, token });
        }
    }
}
