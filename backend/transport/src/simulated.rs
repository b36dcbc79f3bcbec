//! A network inside one process, in virtual time: the same seed gives the same faults.
//!
//! What it does is what TCP does, at its worst. The order of one link is kept; messages of different
//! links overtake each other. A link breaks, and each end learns of it at another time; what was on
//! the way arrives up to some message and no further. A cut between two nodes holds everything up
//! until it is healed, the news of an end too. A node that crashes says nothing.
//!
//! Whoever runs it moves time: [`Network::advance`] to what [`Network::next_ns`] and the nodes' own
//! [`wake_ns`](crate::node::Node::wake_ns) say.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use crate::address::Address;
use crate::limits::{HEAD_AND_HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::transport::{
    Armed, Family, LinkEvent, LinkId, Message, NotBegun, NotTaken, SendToken, Transport,
    TransportBroken, TransportKind,
};

mod random;
mod world;

pub use random::Random;
use world::World;

/// How bad the network is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weather {
    /// The shortest way of a message.
    pub delay_ns_min: u64,
    /// The longest; one message in 64 takes 20 times as long.
    pub delay_ns_max: u64,
    /// One message in so many breaks its link; 0: none.
    pub break_one_in: u64,
    /// One message in so many finds the queue full; 0: none.
    pub full_one_in: u64,
}

/// The network. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Network(Rc<RefCell<World>>);

/// One life of one node's access to it.
#[derive(Debug)]
pub struct Simulated {
    world: Rc<RefCell<World>>,
    number: u32,
    life: u64,
}

/// Events in one step of progress.
const EVENTS_AT_ONCE: usize = 32;

impl Network {
    /// A network without nodes at time 0.
    pub fn new(seed: u64, weather: Weather) -> Network {
        Network(Rc::new(RefCell::new(World::new(Random::new(seed), weather))))
    }

    /// Lets a node with this number live. If one does, it crashes first.
    pub fn start(&self, number: u32) -> Simulated {
        self.crash(number);
        let life = self.0.borrow_mut().start(number);
        Simulated { world: Rc::clone(&self.0), number, life }
    }

    /// Ends the life of a node. What it sent arrives up to some message.
    pub fn crash(&self, number: u32) {
        self.0.borrow_mut().crash(number);
    }

    /// Cuts two nodes from each other.
    pub fn cut(&self, one: u32, other: u32) {
        self.0.borrow_mut().cut(one, other);
    }

    /// Joins them again; what was held up goes on.
    pub fn heal(&self, one: u32, other: u32) {
        self.0.borrow_mut().heal(one, other);
    }

    /// Breaks some link between two nodes, if there is one.
    pub fn break_link(&self, one: u32, other: u32) {
        self.0.borrow_mut().break_between(one, other);
    }

    /// Changes the weather for what is sent from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.0.borrow_mut().weather = weather;
    }

    /// Lets happen what is due until then.
    pub fn advance(&self, now_ns: u64) {
        self.0.borrow_mut().advance(now_ns);
    }

    /// When something is due next.
    pub fn next_ns(&self) -> Option<u64> {
        self.0.borrow().next_ns()
    }
}

impl Transport for Simulated {
    fn kind(&self) -> TransportKind {
        TransportKind { family: Family::Simulated, version: 0 }
    }

    fn address(&self) -> Address {
        Address::Simulated(self.number)
    }

    /// Numbers of the simulated network are those of all its nodes' lives.
    fn number_links_from(&mut self, _last: u64) {}

    fn connect(&mut self, _now_ns: u64, to: Address) -> Result<LinkId, NotBegun> {
        let Address::Simulated(other) = to else { return Err(NotBegun::Family) };
        let mut world = self.world.borrow_mut();
        world.connect(self.number, self.life, other).ok_or(NotBegun::Refused { code: 0 })
    }

    fn send(
        &mut self,
        _now_ns: u64,
        link: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        if message.head.len() > HEAD_AND_HEADER_BYTES_MAX
            || message.payload.len() > PAYLOAD_BYTES_MAX
        {
            return Err((NotTaken::TooLong, message));
        }
        self.world.borrow_mut().send(self.number, self.life, link, message, token)
    }

    fn admit(&mut self, _link: LinkId) {}

    fn close(&mut self, _now_ns: u64, link: LinkId, linger_ns: u64) {
        self.world.borrow_mut().close(self.number, self.life, link, linger_ns > 0);
    }

    fn progress(
        &mut self,
        _now_ns: u64,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportBroken> {
        if let Some(inbox) = self.world.borrow_mut().inbox(self.number, self.life) {
            let count = inbox.len().min(EVENTS_AT_ONCE);
            events.extend(inbox.drain(..count));
        }
        Ok(())
    }

    fn wake_ns(&self) -> Option<u64> {
        None
    }

    fn arm(&mut self) -> Armed {
        match self.world.borrow_mut().inbox(self.number, self.life) {
            Some(inbox) if !inbox.is_empty() => Armed::Again,
            _ => Armed::Sleep,
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
