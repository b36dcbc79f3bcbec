//! What is asked of the service of shared listeners: the bodies of its records.
//!
//! ```text
//! 0 Join    rule                    [listening socket]
//! 1 Find    address
//! 2 Leave   worker
//! 3 Ready   worker
//! 4 Hold    worker
//! 5 Create  address, rule
//! 6 Remove  address
//! 7 Drain   worker, back u32
//! 8 SetRule address, rule
//! 9 Plugin  address                 [socket]
//! ```
//! A rule is three u32 (which, bytes, deadline in ms), 0 0 0 for none; an address is family u8, 0, port
//! u16 and 16 bytes; a worker is an object id (8 bytes).

use super::rule::Rule;
use crate::name::{NetAddress, ObjectId};
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 13;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Join.
    pub const JOIN: u16 = FIRST;
    /// Of Find.
    pub const FIND: u16 = FIRST + 1;
    /// Of Leave.
    pub const LEAVE: u16 = FIRST + 2;
    /// Of Ready.
    pub const READY: u16 = FIRST + 3;
    /// Of Hold.
    pub const HOLD: u16 = FIRST + 4;
    /// Of Create.
    pub const CREATE: u16 = FIRST + 5;
    /// Of Remove.
    pub const REMOVE: u16 = FIRST + 6;
    /// Of Drain.
    pub const DRAIN: u16 = FIRST + 7;
    /// Of SetRule.
    pub const SET_RULE: u16 = FIRST + 8;
    /// Of Plugin.
    pub const PLUGIN: u16 = FIRST + 9;
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerRequest {
    /// The session becomes a worker of the listener of a listening socket, which it shows. Where the
    /// address is not shared it becomes so by the rule given here, and without one the answer is NotFound.
    Join {
        /// By which rule, where the asker says so.
        rule: Option<Rule>,
    },
    /// The listening socket of a shared address, for a program that could not bind it.
    Find {
        /// Which.
        address: NetAddress,
    },
    /// The session is no longer a holder of the worker's queue; the last one ends the worker.
    Leave {
        /// Which.
        worker: ObjectId,
    },
    /// The worker waits for connections. Until one does, they stay with the kernel.
    Ready {
        /// Which.
        worker: ObjectId,
    },
    /// The session takes from the queue of a worker of its user, which it has inherited.
    Hold {
        /// Which.
        worker: ObjectId,
    },
    /// Makes a shared listener, whose listening socket the control plane opens.
    Create {
        /// Where it listens.
        address: NetAddress,
        /// By which rule.
        rule: Rule,
    },
    /// Ends a shared listener: workers that have its listening socket go on with that.
    Remove {
        /// Which.
        address: NetAddress,
    },
    /// Gives a worker nothing more, and what it has not taken to others; or gives to it again.
    Drain {
        /// Which.
        worker: ObjectId,
        /// Whether it is given connections again.
        back: bool,
    },
    /// Changes the rule of a listener for connections to come.
    SetRule {
        /// Of which.
        address: NetAddress,
        /// To which.
        rule: Rule,
    },
    /// Asks whoever has the other end of the socket shown, by the records of `docs/listeners.md`.
    Plugin {
        /// Of which listener.
        address: NetAddress,
    },
}

impl ListenerRequest {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Join { .. } => number::JOIN,
            Self::Find { .. } => number::FIND,
            Self::Leave { .. } => number::LEAVE,
            Self::Ready { .. } => number::READY,
            Self::Hold { .. } => number::HOLD,
            Self::Create { .. } => number::CREATE,
            Self::Remove { .. } => number::REMOVE,
            Self::Drain { .. } => number::DRAIN,
            Self::SetRule { .. } => number::SET_RULE,
            Self::Plugin { .. } => number::PLUGIN,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        match self {
            Self::Join { rule } => Rule::encode(*rule, &mut w),
            Self::Find { address } | Self::Remove { address } | Self::Plugin { address } => {
                address.encode(&mut w);
            }
            Self::Leave { worker } | Self::Ready { worker } | Self::Hold { worker } => {
                worker.encode(&mut w);
            }
            Self::Create { address, rule } | Self::SetRule { address, rule } => {
                address.encode(&mut w);
                Rule::encode(Some(*rule), &mut w);
            }
            Self::Drain { worker, back } => {
                worker.encode(&mut w);
                w.u32(u32::from(*back));
            }
        }
        OwnRequest { number: self.number(), body }
    }

    /// The request in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnRequest) -> Result<Self, WireError> {
        let r = &mut Reader::new(&own.body);
        let request = match own.number {
            number::JOIN => Self::Join { rule: Rule::decode(r)? },
            number::FIND => Self::Find { address: NetAddress::decode(r)? },
            number::LEAVE => Self::Leave { worker: ObjectId::decode(r) },
            number::READY => Self::Ready { worker: ObjectId::decode(r) },
            number::HOLD => Self::Hold { worker: ObjectId::decode(r) },
            number::CREATE => Self::Create { address: NetAddress::decode(r)?, rule: take_rule(r)? },
            number::REMOVE => Self::Remove { address: NetAddress::decode(r)? },
            number::DRAIN => Self::Drain { worker: ObjectId::decode(r), back: take_back(r)? },
            number::SET_RULE => {
                Self::SetRule { address: NetAddress::decode(r)?, rule: take_rule(r)? }
            }
            number::PLUGIN => Self::Plugin { address: NetAddress::decode(r)? },
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(request)
    }
}

fn take_rule(r: &mut Reader<'_>) -> Result<Rule, WireError> {
    Rule::decode(r)?.ok_or(WireError::Field { name: "rule", found: 0 })
}

fn take_back(r: &mut Reader<'_>) -> Result<bool, WireError> {
    match r.u32() {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(WireError::Field { name: "back", found: u64::from(found) }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Peek;
    use super::*;

    const WORKER: ObjectId = ObjectId { index: 7, generation: 3 };

    fn all() -> Vec<ListenerRequest> {
        use ListenerRequest::*;
        let address = NetAddress::new("127.0.0.1:8080".parse().unwrap());
        let mut all = vec![
            Join { rule: None },
            Find { address },
            Leave { worker: WORKER },
            Ready { worker: WORKER },
            Hold { worker: WORKER },
            Create { address, rule: Rule::LeastLoad },
            Remove { address },
            Drain { worker: WORKER, back: true },
            SetRule { address, rule: Rule::Content(Peek { bytes_max: 4096, deadline_ms: 1 }) },
            Plugin { address },
            Drain { worker: WORKER, back: false },
        ];
        all.extend(Rule::ALL.map(|rule| Join { rule: Some(rule) }));
        all
    }

    #[test]
    fn every_request_comes_back_as_it_was_and_has_its_number() {
        for request in all() {
            assert_eq!(ListenerRequest::decode(&request.encode()), Ok(request));
        }
        let numbers: Vec<_> = all().iter().take(10).map(ListenerRequest::number).collect();
        assert_eq!(numbers, (FIRST..FIRST + 10).collect::<Vec<_>>());
    }

    #[test]
    fn no_request_has_bytes_that_say_nothing() {
        for request in all() {
            let mut own = request.encode();
            own.body[REQUEST_BODY_BYTES - 1] = 1;
            assert_eq!(ListenerRequest::decode(&own), Err(WireError::Reserved), "{request:?}");
        }
    }

    #[test]
    fn fields_out_of_their_range_are_refused_by_name() {
        let field = |request: ListenerRequest, at: usize, value: u8| {
            let mut own = request.encode();
            own.body[at] = value;
            match ListenerRequest::decode(&own) {
                Err(WireError::Field { name, .. }) => name,
                other => panic!("{other:?}"),
            }
        };
        let content = ListenerRequest::Join { rule: Some(Rule::Content(Peek::USUAL)) };
        assert_eq!(field(content, 0, 6), "rule");
        assert_eq!(field(content, 5, 0x20), "bytes");
        assert_eq!(field(content, 10, 1), "deadline");
        assert_eq!(field(ListenerRequest::Join { rule: Some(Rule::LeastLoad) }, 4, 1), "bytes");
        assert_eq!(field(all()[1], 0, 5), "family");
        assert_eq!(field(all()[5], 20, 0), "rule");
        assert_eq!(field(all()[7], 8, 2), "back");
    }
}
