//! The thin interface of everything that carries messages: links, and what happens to them.
//!
//! ```text
//! connect ------> Opened ---> Received* Sent* Alive* ---> Unsent* Ended
//!    (somebody connects: Opened, with `is_ours` false)
//! close: nothing more is told of the link
//! ```
//!
//! A transport keeps the order of the messages of one link, gives each at most once, and knows
//! nothing of who is at the other end: that is `node`'s matter. It never waits; what it could not
//! do yet, it does in [`Transport::progress`].

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::address::Address;

/// One link to another node. Numbers are never used again in the life of a transport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// What the caller of [`Transport::send`] calls one message, to be told of its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SendToken(pub u64);

/// One message: a short head and a payload of any length up to the limit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Message {
    /// At most [`HEAD_AND_HEADER_BYTES_MAX`](crate::limits::HEAD_AND_HEADER_BYTES_MAX).
    pub head: Vec<u8>,
    /// At most [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX).
    pub payload: Vec<u8>,
}

/// Which transport, of which version. Both ends of a link have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransportKind {
    /// Which transport.
    pub family: Family,
    /// Its version where versions do not understand each other; else 0.
    pub version: u32,
}

/// The transports there are, with their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Family {
    /// A network inside one process.
    Simulated = 1,
    /// Our own framing over TCP.
    Tcp = 2,
    /// UCX's active messages.
    Ucx = 3,
}

/// What happened to a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// It can be sent on.
    Opened {
        /// Which.
        link: LinkId,
        /// Whether this side connected.
        is_ours: bool,
    },
    /// A whole message came.
    Received {
        /// From where.
        link: LinkId,
        /// What.
        message: Message,
    },
    /// Part of a message came: the other side is alive, though slow.
    Alive {
        /// Which.
        link: LinkId,
    },
    /// The message is out of this process, which says nothing of its arrival.
    Sent {
        /// On which link.
        link: LinkId,
        /// Which message.
        token: SendToken,
    },
    /// The link ended before the other side could have the whole message.
    Unsent {
        /// On which link.
        link: LinkId,
        /// Which message.
        token: SendToken,
    },
    /// Nothing more will happen on the link. Messages without an event may have arrived or not.
    Ended {
        /// Which.
        link: LinkId,
        /// Why.
        why: EndCause,
    },
}

/// Why a link ended, as far as this side can know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndCause {
    /// Nobody listens there, or the network does not reach it.
    Unreachable {
        /// The system's number, or the engine's own.
        code: i32,
    },
    /// The other side closed it, or its process is gone.
    Closed,
    /// The network or the engine gave it up.
    Broken {
        /// The system's number, or the engine's own.
        code: i32,
    },
    /// What came is no message of ours.
    Malformed(Malformation),
}

/// What is wrong with bytes that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformation {
    /// They do not begin as a message does.
    NoMessage,
    /// A length beyond what this link may send now.
    TooLong {
        /// What it says.
        found: u64,
        /// What it may say.
        limit: u64,
    },
}

/// Why a message was not taken for sending: nothing of it is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// The link is not open, or no more.
    NoLink,
    /// So much waits already; there is room after some [`LinkEvent::Sent`].
    Full,
    /// Head or payload are longer than any message may be.
    TooLong,
}

/// Why no link was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotBegun {
    /// The address is another transport's.
    Family,
    /// As many links as there may be.
    Full {
        /// How many.
        limit: usize,
    },
    /// The system or the engine refused.
    Refused {
        /// Its number.
        code: i32,
    },
}

/// Whether a thread may sleep on the descriptor now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Armed {
    /// Yes: it becomes readable when there is something to do.
    Sleep,
    /// No: there is something already.
    Again,
}

/// The transport as a whole is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransportBroken {
    /// The system's number, or the engine's own.
    pub code: i32,
}

/// Carries messages between nodes. Used by one thread.
pub trait Transport {
    /// Which transport this is.
    fn kind(&self) -> TransportKind;

    /// Where others connect to.
    fn address(&self) -> Address;

    /// Numbers of links that are begun from now on are larger than this one. Told before the first.
    fn number_links_from(&mut self, last: u64);

    /// Begins a link. [`LinkEvent::Opened`] or [`LinkEvent::Ended`] follows; how long that may take
    /// is the caller's to bound, by [`Transport::close`].
    fn connect(&mut self, now_ns: u64, to: Address) -> Result<LinkId, NotBegun>;

    /// Takes a message for sending. An event with its token follows, unless the link ends first. A
    /// message that is not taken comes back.
    fn send(
        &mut self,
        now_ns: u64,
        link: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)>;

    /// Lets a link carry messages of full size. Before, payloads are refused.
    fn admit(&mut self, link: LinkId);

    /// Ends a link; nothing more is told of it. What was taken may still be sent, for `linger_ns`.
    fn close(&mut self, now_ns: u64, link: LinkId, linger_ns: u64);

    /// Does what can be done without waiting, and tells what happened: nothing, when there is
    /// nothing left to do. One call does a bounded piece of work, and every link has its turn in it.
    fn progress(&mut self, now_ns: u64, events: &mut Vec<LinkEvent>)
        -> Result<(), TransportBroken>;

    /// When it wants [`Transport::progress`] though its descriptor is not readable.
    fn wake_ns(&self) -> Option<u64>;

    /// Prepares the descriptor for sleep.
    fn arm(&mut self) -> Armed;

    /// What becomes readable when there is something to do; none where time is virtual.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// A transport that is chosen when the node starts.
impl<T: Transport + ?Sized> Transport for Box<T> {
    fn kind(&self) -> TransportKind {
        (**self).kind()
    }

    fn address(&self) -> Address {
        (**self).address()
    }

    fn number_links_from(&mut self, last: u64) {
        (**self).number_links_from(last);
    }

    fn connect(&mut self, now_ns: u64, to: Address) -> Result<LinkId, NotBegun> {
        (**self).connect(now_ns, to)
    }

    fn send(
        &mut self,
        now_ns: u64,
        link: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        (**self).send(now_ns, link, message, token)
    }

    fn admit(&mut self, link: LinkId) {
        (**self).admit(link);
    }

    fn close(&mut self, now_ns: u64, link: LinkId, linger_ns: u64) {
        (**self).close(now_ns, link, linger_ns);
    }

    fn progress(
        &mut self,
        now_ns: u64,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportBroken> {
        (**self).progress(now_ns, events)
    }

    fn wake_ns(&self) -> Option<u64> {
        (**self).wake_ns()
    }

    fn arm(&mut self) -> Armed {
        (**self).arm()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }
}

impl LinkEvent {
    /// The link that it happened to.
    pub fn link(&self) -> LinkId {
        match self {
            LinkEvent::Opened { link, .. }
            | LinkEvent::Received { link, .. }
            | LinkEvent::Alive { link }
            | LinkEvent::Sent { link, .. }
            | LinkEvent::Unsent { link, .. }
            | LinkEvent::Ended { link, .. } => *link,
        }
    }
}

impl Family {
    /// The family of a number on the wire.
    pub fn from_number(number: u16) -> Option<Family> {
        [Family::Simulated, Family::Tcp, Family::Ucx]
            .into_iter()
            .find(|family| *family as u16 == number)
    }
}

impl fmt::Display for NotBegun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBegun::Family => f.write_str("the address is another transport's"),
            NotBegun::Full { limit } => write!(f, "there are {limit} links already"),
            NotBegun::Refused { code } => write!(f, "the system refuses ({code})"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Simulated => "simulated",
            Family::Tcp => "tcp",
            Family::Ucx => "ucx",
        })
    }
}
