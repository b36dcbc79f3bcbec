//! Calls to one node: those of each class in a line of their own, until they may be sent.
//!
//! ```text
//! call --admit--> its lane waits? share, pace? --yes--> sent --ended--> its share is free again
//!                        '-- queued, within places of its own --next--'
//! ```
//!
//! Without shares the lanes are one, but for low calls that are slowed: those have a lane of their own
//! that gives way to the other.

use std::collections::VecDeque;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::limits::{MESSAGE_COST_BYTES, WINDOW_BYTES};

use super::backoff::{Backoff, SHORT_BYTES_MAX};
use super::shares::Load;
use super::{ClassCounts, Quality, WayState};
use crate::limits::{QUEUED_BYTES_MAX, QUEUED_CALLS_MAX};

/// A call that may wait.
pub(crate) trait Queued {
    fn class(&self) -> Class;
    /// Bytes of header and payload.
    fn bytes(&self) -> usize;
    fn deadline_ns(&self) -> u64;
}

/// A call that is sent: what it counts for until it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OnWay {
    class: Class,
    bytes: usize,
    since_ns: u64,
}

impl OnWay {
    /// It was made then, and may have waited: that is a part of its round trip.
    pub(crate) fn made(self, since_ns: u64) -> OnWay {
        OnWay { since_ns, ..self }
    }
}

/// The lanes to one node.
pub(crate) struct Lanes<C> {
    quality: Quality,
    lanes: [Lane<C>; 3],
    loads: [Load; 3],
    counts: [ClassCounts; 3],
    backoff: Option<Backoff>,
    /// The shortest echo.
    echo_ns: Option<u64>,
    /// When a low call that is slowed may be sent.
    paced_ns: Option<u64>,
}

struct Lane<C> {
    waiting: VecDeque<C>,
    bytes: usize,
}

impl<C: Queued> Lanes<C> {
    pub(crate) fn new(quality: &Quality) -> Lanes<C> {
        let lane = || Lane { waiting: VecDeque::new(), bytes: 0 };
        let mut lanes = Lanes {
            quality: Quality::default(),
            lanes: [lane(), lane(), lane()],
            loads: [Load::default(); 3],
            counts: [ClassCounts::default(); 3],
            backoff: None,
            echo_ns: None,
            paced_ns: None,
        };
        lanes.set(quality);
        lanes
    }

    /// It is done so from now on. What waits stays where it waits.
    pub(crate) fn set(&mut self, quality: &Quality) {
        if self.quality.back_off != quality.back_off {
            self.backoff = quality.back_off.map(|it| Backoff::new(it.round_trip_ns));
            let known = self.backoff.as_mut().zip(self.echo_ns);
            known.into_iter().for_each(|(backoff, echo_ns)| backoff.learn(echo_ns));
        }
        self.quality = quality.clone();
        self.paced_ns = None;
    }

    /// Whether a call waits for what ends here: its share, or its time. What waits for the window is
    /// told when that has room.
    pub(crate) fn waits_here(&self) -> bool {
        let is_limited = self.quality.shares.is_some() || self.backoff.is_some();
        is_limited && self.lanes.iter().any(|lane| !lane.waiting.is_empty())
    }

    /// Takes a call: it comes back where it may be sent now, as `Err` where it has no place to wait.
    pub(crate) fn admit(&mut self, now_ns: u64, call: C) -> Result<Option<C>, C> {
        let lane = self.lane_of(call.class());
        let waits = self.lanes.get(lane).is_some_and(|lane| !lane.waiting.is_empty());
        if !waits && self.may_go(now_ns, lane, call.class(), call.bytes()) {
            return Ok(Some(call));
        }
        self.queue(call).map_or(Ok(None), Err)
    }

    /// Keeps a call until it may be sent. Where as much waits as may it comes back.
    pub(crate) fn queue(&mut self, call: C) -> Option<C> {
        let place = self.lane_of(call.class());
        let (lane, counts) = (&mut self.lanes[place], &mut self.counts[call.class().place()]);
        let bytes = lane.bytes + call.bytes();
        if lane.waiting.len() >= QUEUED_CALLS_MAX || bytes > QUEUED_BYTES_MAX {
            counts.refused += 1;
            return Some(call);
        }
        counts.waited += 1;
        lane.bytes = bytes;
        lane.waiting.push_back(call);
        None
    }

    /// The first call that may be sent now, the most urgent class first.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<C> {
        self.paced_ns = None;
        for place in 0..self.lanes.len() {
            let Some((class, bytes)) =
                self.lanes[place].waiting.front().map(|call| (call.class(), call.bytes()))
            else {
                continue;
            };
            if self.may_go(now_ns, place, class, bytes) {
                let lane = &mut self.lanes[place];
                lane.bytes -= bytes;
                return lane.waiting.pop_front();
            }
        }
        None
    }

    /// Any call that waits: the way has ended.
    pub(crate) fn take_any(&mut self) -> Option<C> {
        let lane = self.lanes.iter_mut().find(|lane| !lane.waiting.is_empty())?;
        let call = lane.waiting.pop_front()?;
        lane.bytes -= call.bytes();
        Some(call)
    }

    /// Puts a call back that the way had no room for.
    pub(crate) fn requeue(&mut self, call: C) {
        let place = self.lane_of(call.class());
        let lane = &mut self.lanes[place];
        lane.bytes += call.bytes();
        lane.waiting.push_front(call);
    }

    /// Takes the calls out whose time is over.
    pub(crate) fn expired(&mut self, now_ns: u64) -> Vec<C> {
        let mut all = Vec::new();
        for lane in &mut self.lanes {
            let waiting = std::mem::take(&mut lane.waiting);
            let (late, rest): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|call| call.deadline_ns() <= now_ns);
            lane.bytes = rest.iter().map(C::bytes).sum();
            lane.waiting = rest.into();
            all.extend(late);
        }
        all
    }

    /// When there is something to do though nothing comes: a deadline, or the time of a low call.
    pub(crate) fn wake_ns(&self) -> Option<u64> {
        let waiting = self.lanes.iter().flat_map(|lane| &lane.waiting);
        waiting.map(C::deadline_ns).chain(self.paced_ns).min()
    }

    /// A call is sent.
    pub(crate) fn sent(&mut self, now_ns: u64, class: Class, bytes: usize) -> OnWay {
        let (load, counts) = (&mut self.loads[class.place()], &mut self.counts[class.place()]);
        (load.calls, load.bytes) = (load.calls + 1, load.bytes + cost(bytes));
        (counts.calls, counts.bytes) = (counts.calls + 1, counts.bytes + cost(bytes));
        match (class, &mut self.backoff) {
            (Class::High, Some(backoff)) => backoff.high_began(now_ns),
            (Class::Low, Some(backoff)) => backoff.low_sent(now_ns, cost(bytes)),
            _ => {}
        }
        OnWay { class, bytes, since_ns: now_ns }
    }

    /// It has ended, with an answer of so many bytes or with none.
    pub(crate) fn ended(&mut self, now_ns: u64, call: OnWay, answer_bytes: Option<usize>) {
        let OnWay { class, bytes, since_ns } = call;
        let load = &mut self.loads[class.place()];
        load.calls = load.calls.saturating_sub(1);
        load.bytes = load.bytes.saturating_sub(cost(bytes));
        if let (Class::High, Some(backoff)) = (class, &mut self.backoff) {
            let is_short = |answer: usize| answer + bytes <= SHORT_BYTES_MAX;
            let is_measured = answer_bytes.is_some_and(is_short);
            let round_trip_ns = is_measured.then_some(now_ns.saturating_sub(since_ns));
            backoff.high_ended(now_ns, round_trip_ns);
        }
    }

    /// An echo took so long.
    pub(crate) fn measured(&mut self, round_trip_ns: u64) {
        self.echo_ns = Some(self.echo_ns.map_or(round_trip_ns, |ns| ns.min(round_trip_ns)));
        if let Some(backoff) = &mut self.backoff {
            backoff.learn(round_trip_ns);
        }
    }

    /// A request of the node was served here.
    pub(crate) fn served(&mut self, class: Class) {
        self.counts[class.place()].served += 1;
    }

    /// How it is.
    pub(crate) fn state(&self) -> WayState {
        let mut classes = self.counts;
        for (counts, load) in classes.iter_mut().zip(&self.loads) {
            (counts.under_way, counts.on_way_bytes) = (load.calls, load.bytes);
        }
        for call in self.lanes.iter().flat_map(|lane| &lane.waiting) {
            classes[call.class().place()].waiting += 1;
        }
        let state = WayState { classes, ..WayState::default() };
        let Some(backoff) = &self.backoff else { return state };
        let (rate, pace) = backoff.state();
        WayState {
            low_per_second: rate.unwrap_or(0),
            pace,
            slowed: backoff.slowed,
            released: backoff.released,
            high_round_trip_ns: backoff.last_ns,
            ..state
        }
    }

    /// Where calls of a class wait.
    fn lane_of(&self, class: Class) -> usize {
        match class {
            _ if self.quality.shares.is_some() => class.place(),
            Class::Low if self.backoff.is_some() => Class::Low.place(),
            _ => Class::Normal.place(),
        }
    }

    /// Whether a call may be sent now, as far as those before it in its lane let it.
    fn may_go(&mut self, now_ns: u64, lane: usize, class: Class, bytes: usize) -> bool {
        let has_share = match &self.quality.shares {
            Some(shares) => shares.admit(&self.loads, class, cost(bytes), WINDOW_BYTES),
            // One window for all: who waits for it before is sent before.
            None => self.lanes.iter().take(lane).all(|before| before.waiting.is_empty()),
        };
        if !has_share {
            return false;
        }
        let Some(backoff) = self.backoff.as_mut().filter(|_| class == Class::Low) else {
            return true;
        };
        match backoff.admit_low(now_ns) {
            Ok(()) => true,
            Err(until_ns) => {
                self.paced_ns = Some(until_ns);
                false
            }
        }
    }
}

/// What a call counts for, as in the window.
fn cost(bytes: usize) -> u64 {
    MESSAGE_COST_BYTES + bytes as u64
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
