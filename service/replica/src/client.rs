//! A node's programs as clients of one region: who is asked, again and by whom, until it is done.
//!
//! ```text
//! submit -> sent to the primary --Done--> over
//!              ^      '--not the primary, lost, late--> waits --look--> the record
//!              '---------------------------------------------------------'
//! ```
//! A request keeps its identity whoever is asked, so it is done once. Where nobody can say whether it
//! was done it ends as `Unknown`.

use std::collections::BTreeMap;

use crate::action::{Action, Answer, Answered, Operate, Unanswered};
use crate::placement::{Member, Placement, RequestId};

/// What a client is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEffect {
    /// Sends an operation; `answered` follows.
    Send {
        /// To whom.
        to: Member,
        /// What.
        operate: Box<Operate>,
    },
    /// Reads the record; `looked` follows.
    Look,
    /// It is over.
    Done {
        /// Which, as it was named.
        token: u64,
        /// How.
        result: Result<Answered, Failed>,
    },
}

/// Why an operation was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// It was not done, and will not be: no primary was found.
    NotDone,
    /// It may have been done, or may still.
    Unknown,
    /// The region is gone.
    Gone,
    /// Not all of it lies in the region.
    Range,
    /// The user may not.
    Denied,
}

/// An operation that was submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submitted {
    token: u64,
    action: Action,
    floor: u64,
    until_ns: u64,
    /// Some copy of it may have come to a primary that has not said what became of it.
    may_be_done: bool,
    /// To whom it is on its way.
    sent: Option<Member>,
}

/// The client of one region on one node.
pub struct Client {
    me: Member,
    placement: Placement,
    floor: u64,
    open: BTreeMap<u64, Submitted>,
    is_looking: bool,
    must_look: bool,
    is_gone: bool,
}

impl Client {
    /// Of a region whose record was read.
    pub fn new(me: Member, placement: Placement) -> Client {
        let open = BTreeMap::new();
        Client {
            me,
            placement,
            floor: 0,
            open,
            is_looking: false,
            must_look: false,
            is_gone: false,
        }
    }

    /// What it knows of where the region lies.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Whether the region was found to be no more.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Operations that have not ended.
    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// Whether an operation of this number has not ended.
    pub fn has(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// An operation; `number` is this node's, never used again. `Done` with the token follows.
    pub fn submit(
        &mut self,
        (token, number): (u64, u64),
        action: Action,
        until_ns: u64,
        effects: &mut Vec<ClientEffect>,
    ) {
        let (floor, may_be_done, sent) = (self.floor, false, None);
        self.open.insert(number, Submitted { token, action, floor, until_ns, may_be_done, sent });
        if !self.must_look {
            self.send(number, effects);
        }
    }

    fn send(&mut self, number: u64, effects: &mut Vec<ClientEffect>) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let to = self.placement.primary;
        open.sent = Some(to);
        let operate = Operate {
            region: self.placement.identity,
            epoch: self.placement.epoch,
            id: RequestId { asker: self.me, number },
            floor: open.floor,
            action: open.action.clone(),
        };
        effects.push(ClientEffect::Send { to, operate: Box::new(operate) });
    }

    /// Whoever was asked has answered, or has not.
    pub fn answered(
        &mut self,
        number: u64,
        answer: Result<Answer, Unanswered>,
        effects: &mut Vec<ClientEffect>,
    ) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.sent = None;
        match answer {
            Ok(Answer::Done(answered)) => {
                self.floor = self.floor.max(answered.entry);
                self.end(number, Ok(answered), effects);
            }
            Ok(Answer::Range) => self.end(number, Err(Failed::Range), effects),
            Ok(Answer::TooOld { .. }) if open.may_be_done => {
                self.end(number, Err(Failed::Unknown), effects);
            }
            Ok(Answer::TooOld { floor }) => {
                self.floor = self.floor.max(floor);
                open.floor = self.floor;
                self.send(number, effects);
            }
            Ok(Answer::Denied) => self.end(number, Err(Failed::Denied), effects),
            // With the next tick.
            Ok(Answer::Busy) => {}
            Ok(Answer::NotPrimary { may_be_done }) => {
                open.may_be_done |= may_be_done;
                self.look(effects);
            }
            Err(why) => {
                open.may_be_done |= why == Unanswered::Unknown;
                self.look(effects);
            }
        }
    }

    fn look(&mut self, effects: &mut Vec<ClientEffect>) {
        self.must_look = true;
        if !std::mem::replace(&mut self.is_looking, true) {
            effects.push(ClientEffect::Look);
        }
    }

    /// The record was read: `Ok(None)` where there is none, or another region's.
    pub fn looked(
        &mut self,
        found: Result<Option<Placement>, ()>,
        effects: &mut Vec<ClientEffect>,
    ) {
        self.is_looking = false;
        match found {
            Ok(Some(found)) if found.identity == self.placement.identity => {
                let is_new = found.epoch > self.placement.epoch;
                self.must_look = false;
                if is_new {
                    self.placement = found;
                    self.send_waiting(effects);
                }
            }
            Ok(_) => {
                self.is_gone = true;
                let all: Vec<u64> = self.open.keys().copied().collect();
                all.into_iter().for_each(|it| self.end(it, Err(Failed::Gone), effects));
            }
            Err(()) => {}
        }
    }

    fn send_waiting(&mut self, effects: &mut Vec<ClientEffect>) {
        let waits = self.open.iter().filter(|(_, open)| open.sent.is_none());
        let waits: Vec<u64> = waits.map(|(number, _)| *number).collect();
        waits.into_iter().for_each(|number| self.send(number, effects));
    }

    /// Time went by: what waits is asked again, and what has waited for too long ends.
    pub fn tick(&mut self, now_ns: u64, effects: &mut Vec<ClientEffect>) {
        let late = self.open.iter().filter(|(_, open)| open.until_ns <= now_ns);
        let late: Vec<_> =
            late.map(|(number, open)| (*number, open.may_be_done || open.sent.is_some())).collect();
        for (number, may_be_done) in late {
            let why = if may_be_done { Failed::Unknown } else { Failed::NotDone };
            self.end(number, Err(why), effects);
        }
        match self.must_look {
            true => self.look(effects),
            false => self.send_waiting(effects),
        }
    }

    fn end(
        &mut self,
        number: u64,
        result: Result<Answered, Failed>,
        effects: &mut Vec<ClientEffect>,
    ) {
        if let Some(open) = self.open.remove(&number) {
            effects.push(ClientEffect::Done { token: open.token, result });
        }
    }
}
