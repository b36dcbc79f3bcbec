//! Locks between nodes: sessions of other nodes here, what this node's have there, and what goes to
//! whom in which order.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use heliostat_abi::cluster::Class;
use heliostat_abi::lock::peer::PeerNews;
use heliostat_abi::lock::{LockRequest, Outcome};
use heliostat_abi::name::ObjectId;
use heliostat_server_node::PeerNode;
use heliostat_service_lock::{ForeignSessions, RemoteLocks};

use crate::state::asks::Waiter;

/// Messages to one node that have no answer: some of the calls that one node may have from here. What
/// comes after them waits here, in order.
const ON_THE_WAY_MAX: usize = 64;
/// How long it takes until a message that found no room is sent again.
const RETRY_NS: u64 = 20_000_000;
/// News of tickets that came before the answer which names them: one for each message on the way.
const EARLY_MAX: usize = ON_THE_WAY_MAX;

/// What another node is told or asked.
#[derive(Clone, Debug)]
pub enum LockMessage {
    /// Something for a session.
    Ask {
        /// The session, which may have ended meanwhile.
        session: ObjectId,
        /// Its user.
        user: u32,
        /// Its process.
        process: u32,
        /// How urgent it is.
        class: Class,
        /// What.
        request: LockRequest,
        /// What the answer is about.
        wanted: Wanted,
        /// Who waits for it, if somebody does.
        waiter: Option<Waiter>,
    },
    /// A session has ended.
    End(ObjectId),
}

impl LockMessage {
    /// Of which session.
    fn session(&self) -> ObjectId {
        match self {
            Self::Ask { session, .. } | Self::End(session) => *session,
        }
    }

    /// In which class it goes.
    pub fn class(&self) -> Class {
        match self {
            Self::Ask { class, .. } => *class,
            Self::End(_) => Class::Normal,
        }
    }
}

/// What an answer is about, in the names of the session that asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A handle on something of this kind.
    Handle(heliostat_abi::lock::Kind),
    /// A ticket by this handle.
    Ticket(ObjectId),
    /// This ticket's end.
    Cancelled(ObjectId),
    /// A ticket there that nobody wants: what it has got is released.
    Return(ObjectId),
    /// Nothing but what is answered.
    Answer,
}

/// Whether a request gives something back, and is sent though nobody waits for its answer.
pub fn gives_back(request: &LockRequest) -> bool {
    matches!(
        request,
        LockRequest::Close { .. } | LockRequest::Release { .. } | LockRequest::Cancel { .. }
    )
}

/// What goes to one node by one link.
#[derive(Debug, Default)]
pub struct Outbox {
    /// What waits, in order.
    pub queue: VecDeque<LockMessage>,
    /// Messages without an answer, by token.
    pub on_the_way: BTreeMap<u64, LockMessage>,
    /// What tickets without a name became.
    early: VecDeque<(ObjectId, Outcome)>,
    /// Sessions there with news, in order.
    pub to_tell: VecDeque<ObjectId>,
    /// News that are on the way, and by which token; by none where they have to be sent again.
    pub news: Option<(Option<u64>, Vec<PeerNews>)>,
    /// When what found no room is sent again.
    retry_ns: Option<u64>,
}

impl Outbox {
    /// Whether one more message may be sent now.
    pub fn has_room(&self) -> bool {
        self.retry_ns.is_none() && self.on_the_way.len() < ON_THE_WAY_MAX
    }

    /// Takes the next that may be sent. Classes overtake each other on the way, but what one session asks
    /// stays in order: what is of another class than what it has on the way waits for that.
    pub fn next(&mut self) -> Option<LockMessage> {
        let mut waits = HashSet::new();
        let at = self.queue.iter().position(|message| {
            let (session, class) = (message.session(), message.class());
            let overtakes =
                |other: &LockMessage| other.session() == session && other.class() != class;
            let is_next = !waits.contains(&session) && !self.on_the_way.values().any(overtakes);
            if !is_next {
                waits.insert(session);
            }
            is_next
        })?;
        self.queue.remove(at)
    }

    /// What could not be sent is sent later.
    pub fn retry(&mut self, now_ns: u64) {
        self.retry_ns = Some(now_ns.saturating_add(RETRY_NS));
    }

    /// Keeps what a ticket became that nothing here has yet, if an answer may name it.
    pub fn keep_early(&mut self, session: ObjectId, there: ObjectId, outcome: Outcome) {
        let may_name = |message: &LockMessage| match message {
            LockMessage::Ask { session: of, wanted, .. } => {
                *of == session && matches!(wanted, Wanted::Ticket(_))
            }
            LockMessage::End(_) => false,
        };
        if self.early.len() < EARLY_MAX && self.on_the_way.values().any(may_name) {
            self.early.push_back((there, outcome));
        }
    }

    /// What a ticket became before it was named.
    pub fn take_early(&mut self, there: ObjectId) -> Option<Outcome> {
        let at = self.early.iter().position(|(ticket, _)| *ticket == there)?;
        self.early.remove(at).map(|(_, outcome)| outcome)
    }

    /// Nothing on the way may name a ticket any more.
    pub fn forget_early(&mut self) {
        if self.on_the_way.is_empty() {
            self.early.clear();
        }
    }

    fn waiters(&mut self) -> impl Iterator<Item = &mut Option<Waiter>> {
        let all = self.queue.iter_mut().chain(self.on_the_way.values_mut());
        all.filter_map(|message| match message {
            LockMessage::Ask { waiter, .. } => Some(waiter),
            LockMessage::End(_) => None,
        })
    }
}

/// What the daemon keeps of locks between nodes.
pub struct Across {
    /// Sessions of other nodes.
    pub foreign: ForeignSessions,
    /// What this node's sessions have on other nodes.
    pub remotes: RemoteLocks,
    /// What goes to which node, by link.
    pub outboxes: BTreeMap<u64, (PeerNode, Outbox)>,
    /// Which link a token's message went by.
    links: HashMap<u64, u64>,
    last_token: u64,
}

/// What a session waited for that waits no more.
pub struct GivenUp {
    /// Who waited.
    pub waiter: Waiter,
    /// Whether the node may do it all the same.
    pub is_sent: bool,
}

impl Across {
    /// Nothing yet.
    pub fn new(remotes: RemoteLocks) -> Across {
        let (outboxes, links) = (BTreeMap::new(), HashMap::new());
        Across { foreign: ForeignSessions::default(), remotes, outboxes, links, last_token: 0 }
    }

    /// What goes to a node that is joined.
    pub fn outbox(&mut self, peer: PeerNode) -> &mut Outbox {
        &mut self.outboxes.entry(peer.link.0).or_insert_with(|| (peer, Outbox::default())).1
    }

    /// Names a message of a link.
    pub fn token(&mut self, link: u64) -> u64 {
        self.last_token += 1;
        self.links.insert(self.last_token, link);
        self.last_token
    }

    /// A link is lost; returns what had not been answered on it.
    pub fn lose(&mut self, link: u64) -> Option<Outbox> {
        self.links.retain(|_, other| *other != link);
        self.outboxes.remove(&link).map(|(_, outbox)| outbox)
    }

    /// The link of a message that has ended.
    pub fn end_token(&mut self, token: u64) -> Option<u64> {
        self.links.remove(&token)
    }

    /// Ends the waiting of those that are meant. What was not sent is not sent any more, unless it gives
    /// something back, and what was is answered in vain.
    pub fn give_up(&mut self, is_meant: impl Fn(&Waiter) -> bool) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        for (_, outbox) in self.outboxes.values_mut() {
            let mut kept = VecDeque::new();
            for message in std::mem::take(&mut outbox.queue) {
                match message {
                    LockMessage::Ask { waiter: Some(waiter), ref request, .. }
                        if is_meant(&waiter) && !gives_back(request) =>
                    {
                        given_up.push(GivenUp { waiter, is_sent: false });
                    }
                    other => kept.push_back(other),
                }
            }
            outbox.queue = kept;
            for waiter in outbox.waiters() {
                if let Some(waiter) = waiter.take_if(|waiter| is_meant(waiter)) {
                    given_up.push(GivenUp { waiter, is_sent: true });
                }
            }
        }
        given_up
    }

    /// Links by which something of a session is on the way.
    pub fn links_of(&self, session: ObjectId) -> Vec<u64> {
        let is_its = |message: &LockMessage| matches!(message, LockMessage::Ask { session: of, .. } if *of == session);
        let all = self.outboxes.iter();
        let its = all.filter(|(_, (_, outbox))| {
            outbox.queue.iter().chain(outbox.on_the_way.values()).any(is_its)
        });
        its.map(|(link, _)| *link).collect()
    }

    /// Links whose time to send again has come.
    pub fn take_due(&mut self, now_ns: u64) -> Vec<PeerNode> {
        let due = self.outboxes.values_mut().filter_map(|(peer, outbox)| {
            outbox.retry_ns.take_if(|at| *at <= now_ns).map(|_| *peer)
        });
        due.collect()
    }

    /// When there is something to do because time went by.
    pub fn next_ns(&self) -> Option<u64> {
        let until = |message: &LockMessage| match message {
            LockMessage::Ask { waiter, .. } => waiter.map(|waiter| waiter.until_ns),
            LockMessage::End(_) => None,
        };
        let all = self.outboxes.values().filter_map(|(_, outbox)| {
            let messages = outbox.queue.iter().chain(outbox.on_the_way.values());
            messages.filter_map(until).chain(outbox.retry_ns).min()
        });
        all.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(session: u32, class: Class) -> LockMessage {
        let session = ObjectId { index: session, generation: 1 };
        let request = LockRequest::Cancel { ticket: session };
        let (user, process, wanted, waiter) = (1, 1, Wanted::Answer, None);
        LockMessage::Ask { session, user, process, class, request, wanted, waiter }
    }

    fn told(message: LockMessage) -> (u32, Class) {
        (message.session().index, message.class())
    }

    #[test]
    fn what_a_session_asks_stays_in_order_whatever_its_classes() {
        let mut outbox = Outbox::default();
        let low = [ask(1, Class::Low), ask(1, Class::High), ask(1, Class::Low)];
        outbox.queue.extend(low);
        outbox.queue.extend([ask(2, Class::High), LockMessage::End(ask(1, Class::Low).session())]);
        let first = outbox.next().unwrap();
        outbox.on_the_way.insert(1, first);
        assert_eq!(outbox.next().map(told), Some((2, Class::High)), "others do not wait");
        assert!(outbox.next().is_none(), "nor is the third one sent before the second");
        outbox.on_the_way.clear();
        assert_eq!(outbox.next().map(told), Some((1, Class::High)));
        assert_eq!(outbox.next().map(told), Some((1, Class::Low)));
        assert_eq!(outbox.next().map(told), Some((1, Class::Normal)));
        assert!(outbox.next().is_none());
    }
}
