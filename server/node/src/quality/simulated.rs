//! A way between two nodes, simulated: a pipe that serves in order, a high reader, and a low flood.
//!
//! The same lanes and the same controller as on the node's thread, with times of a simulation: what is
//! said here about latency does not depend on the machine that it is tested on.

use std::collections::VecDeque;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::limits::{MESSAGE_COST_BYTES, WINDOW_BYTES};

use super::lanes::{Lanes, OnWay, Queued};
use super::{BackOff, Quality, Shares};

/// What a message takes beside its bytes, which pass at a gigabyte a second.
const MESSAGE_NS: u64 = 5_000;
/// From the end of the pipe to the answer's arrival.
const BACK_NS: u64 = 20_000;
/// The reader reads again after so long.
const THINK_NS: u64 = 100_000;
const PART: usize = 256 << 10;
/// Parts of low writers that are on their way or wait.
const FLOOD: usize = 60;
const SECOND: u64 = 1_000_000_000;

struct Call {
    class: Class,
    bytes: usize,
    asked_ns: u64,
}

impl Queued for Call {
    fn class(&self) -> Class {
        self.class
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn deadline_ns(&self) -> u64 {
        u64::MAX
    }
}

struct Way {
    lanes: Lanes<Call>,
    now_ns: u64,
    free_ns: u64,
    in_flight: u64,
    /// In order of their answers' arrival.
    on_way: VecDeque<(u64, OnWay, Call)>,
    latencies: Vec<u64>,
    low_bytes: usize,
}

impl Way {
    fn new(quality: &Quality) -> Way {
        let mut lanes = Lanes::new(quality);
        // The echo when a node is joined.
        lanes.measured(MESSAGE_NS + BACK_NS);
        Way {
            lanes,
            now_ns: SECOND,
            free_ns: 0,
            in_flight: 0,
            on_way: VecDeque::new(),
            latencies: Vec::new(),
            low_bytes: 0,
        }
    }

    fn ask(&mut self, class: Class, bytes: usize) {
        let call = Call { class, bytes, asked_ns: self.now_ns };
        if let Some(call) = self.lanes.admit(self.now_ns, call).ok().flatten() {
            self.send(call);
        }
    }

    /// As the node's thread: what the window has no room for waits.
    fn send(&mut self, call: Call) -> bool {
        let cost = MESSAGE_COST_BYTES + call.bytes as u64;
        if self.in_flight + cost > WINDOW_BYTES {
            self.lanes.requeue(call);
            return false;
        }
        self.in_flight += cost;
        let on_way = self.lanes.sent(self.now_ns, call.class, call.bytes).made(call.asked_ns);
        self.free_ns = self.free_ns.max(self.now_ns) + MESSAGE_NS + call.bytes as u64;
        self.on_way.push_back((self.free_ns + BACK_NS, on_way, call));
        true
    }

    fn send_waiting(&mut self) {
        while let Some(call) = self.lanes.next(self.now_ns) {
            if !self.send(call) {
                return;
            }
        }
    }

    /// For so long: a reader if it is wanted, and a flood if it is wanted.
    fn play(&mut self, ns: u64, reads: bool, floods: bool) {
        let (until, mut read_ns) = (self.now_ns + ns, reads.then_some(self.now_ns));
        let low = |way: &Way| way.lanes.state().classes[2];
        while self.now_ns < until {
            while floods && low(self).under_way + low(self).waiting < FLOOD as u64 {
                self.ask(Class::Low, PART);
            }
            if read_ns.is_some_and(|at| at <= self.now_ns) {
                read_ns = None;
                self.ask(Class::High, 64);
            }
            self.send_waiting();
            let answer = self.on_way.front().map(|(at, ..)| *at);
            let wake = self.lanes.wake_ns().filter(|at| *at > self.now_ns && *at < u64::MAX);
            let next = [answer, wake, read_ns].into_iter().flatten().min().unwrap_or(until);
            self.now_ns = next.clamp(self.now_ns, until);
            while self.on_way.front().is_some_and(|(at, ..)| *at <= self.now_ns) {
                let Some((_, on_way, call)) = self.on_way.pop_front() else { break };
                self.in_flight -= MESSAGE_COST_BYTES + call.bytes as u64;
                self.lanes.ended(self.now_ns, on_way, Some(64));
                if call.class == Class::High {
                    self.latencies.push(self.now_ns - call.asked_ns);
                    read_ns = Some(self.now_ns + THINK_NS);
                } else {
                    self.low_bytes += call.bytes;
                }
            }
        }
    }

    /// The latency that so many of a hundred reads were no slower than.
    fn within(&self, percent: usize) -> u64 {
        let mut all = self.latencies.clone();
        all.sort_unstable();
        all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

/// A reader alone, then beside a flood: its median and its 99th of a hundred beside it, and the flood's
/// bytes a second.
fn beside_a_flood(quality: &Quality) -> (u64, u64, u64, usize) {
    let mut way = Way::new(quality);
    way.play(SECOND / 5, true, false);
    let alone = way.within(50);
    way.latencies.clear();
    way.play(SECOND / 2, true, true);
    (way.latencies, way.low_bytes) = (Vec::new(), 0);
    way.play(2 * SECOND, true, true);
    (alone, way.within(50), way.within(99), way.low_bytes / 2)
}

fn separate() -> Quality {
    Quality { shares: Some(Shares::default()), ..Quality::default() }
}

fn back_off() -> Quality {
    Quality { back_off: Some(BackOff::default()), ..Quality::default() }
}

#[test]
fn without_a_scheme_a_high_read_waits_for_the_whole_window_of_low_writes() {
    let (alone, median, _, low) = beside_a_flood(&Quality::default());
    assert!(median > 300 * alone, "{median} after {alone}");
    assert!(low > 900_000_000, "and the flood has the way: {low}");
}

#[test]
fn with_shares_it_waits_for_the_low_ones_share_at_most() {
    let (alone, median, worst, low) = beside_a_flood(&separate());
    let share = WINDOW_BYTES / 100 * 6;
    assert!(worst <= alone + share + share / 8, "{median} {worst} after {alone}, share {share}");
    assert!(low > 800_000_000, "the flood goes on: {low}");
}

#[test]
fn with_back_off_most_reads_are_as_fast_as_alone_and_the_flood_goes_on() {
    let (alone, median, worst, low) = beside_a_flood(&back_off());
    assert!(median <= 2 * alone, "{median} after {alone}");
    assert!(worst <= alone + 4 * PART as u64, "{worst}");
    assert!(low > 4_000_000, "{low}");
}

#[test]
fn with_both_it_is_no_worse_than_with_either() {
    let both = Quality { back_off: Some(BackOff::default()), ..separate() };
    let (alone, median, worst, low) = beside_a_flood(&both);
    assert!(median <= 2 * alone && worst <= alone + WINDOW_BYTES / 100 * 7, "{median} {worst}");
    assert!(low > 4_000_000, "{low}");
}

#[test]
fn a_flood_without_a_reader_has_the_way_and_has_it_again_after_one() {
    let mut way = Way::new(&back_off());
    way.play(SECOND, false, true);
    let free = way.low_bytes;
    way.play(SECOND, true, true);
    let beside = way.low_bytes - free;
    let before = way.low_bytes;
    way.play(SECOND / 5, false, true);
    way.low_bytes = 0;
    way.play(SECOND, false, true);
    assert!(beside < free / 2, "{beside} of {free}");
    assert!(way.low_bytes > free * 9 / 10, "{} of {free}, {before}", way.low_bytes);
}
