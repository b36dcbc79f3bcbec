//! The controller that slows low calls while high ones suffer, and lets them go faster again.
//!
//! ```text
//! an interval's high calls    what low ones may have
//! late                        half of what they had, a megabyte a second at least
//! many, and in time           half of what they had at first, then no more and no less
//! few, and in time            a quarter more, until it is twice what they had when nothing held them
//! none for some intervals     anything
//! ```
//!
//! Late is a round trip beyond the limit: the one that is configured, or twice the shortest seen on this
//! way, an echo's at least. Where calls are late for seconds though low ones have the least, low ones
//! are not why: the way has become longer, and the shortest is learnt anew. Only short calls are
//! measured: of long ones the time says how long they are. These are LITE's three policies (SOSP 2017):
//! load, its absence, and the measured round trip.

/// How long it is looked before something is decided.
const INTERVAL_NS: u64 = 10_000_000;
/// Intervals without a high call after which nothing is held back.
const LIGHT_INTERVALS: u64 = 5;
/// High calls under way at once, in the mean, that are many.
const MANY: u64 = 2;
/// Of so many calls one that is late is enough.
const LATE_OF: u64 = 4;
/// How long calls are late beside low ones that have the least, until the limit is another.
const LONGER_NS: u64 = 5_000_000_000;
/// What a round trip may take more than twice the shortest: what a wake-up takes.
const SLACK_NS: u64 = 50_000;
/// The least that low calls may have in a second, so that they come to their end.
const PER_SECOND_MIN: u64 = 1 << 20;
/// Header and payload, there and back, of a call that is short.
pub(crate) const SHORT_BYTES_MAX: usize = 16 << 10;

/// Why low calls have the rate that they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// Nothing holds them.
    #[default]
    Free,
    /// High calls are many.
    Loaded,
    /// High calls are late.
    Late,
    /// High calls are few and in time: it becomes faster.
    Recovering,
}

impl Pace {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Pace::Free => "free",
            Pace::Loaded => "loaded",
            Pace::Late => "late",
            Pace::Recovering => "recovering",
        }
    }
}

/// The controller of one way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    /// The longest round trip that is in time; 0: learnt.
    limit_ns: u64,
    shortest_ns: Option<u64>,
    /// Since when calls are late though low ones have the least.
    in_vain_since_ns: Option<u64>,
    seen: Interval,
    high_under_way: u64,
    light_intervals: u64,
    /// Bytes a second; none for any.
    rate: Option<u64>,
    /// What low calls had when nothing held them.
    free_rate: u64,
    paid_up_to_ns: u64,
    pace: Pace,
    pub(crate) slowed: u64,
    pub(crate) released: u64,
    pub(crate) last_ns: u64,
}

/// What was seen since it was last decided.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    begun_ns: u64,
    changed_ns: u64,
    /// High calls under way, times how long.
    load: u64,
    begun: u64,
    measured: u64,
    late: u64,
    shortest_ns: Option<u64>,
    low_bytes: u64,
}

impl Backoff {
    /// With a limit in nanoseconds, or 0: it is learnt.
    pub(crate) fn new(limit_ns: u64) -> Backoff {
        Backoff { limit_ns, ..Backoff::default() }
    }

    /// A high call is sent.
    pub(crate) fn high_began(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.high_under_way += 1;
        self.seen.begun += 1;
    }

    /// A high call has ended; with its round trip where it was short and answered.
    pub(crate) fn high_ended(&mut self, now_ns: u64, round_trip_ns: Option<u64>) {
        self.pass(now_ns);
        self.high_under_way = self.high_under_way.saturating_sub(1);
        if let Some(ns) = round_trip_ns {
            self.learn(ns);
            self.last_ns = ns;
            self.seen.measured += 1;
            self.seen.shortest_ns = shorter(self.seen.shortest_ns, ns);
            self.seen.late += u64::from(ns > self.limit());
        }
    }

    /// The way there and back took so long while nothing was measured: an echo.
    pub(crate) fn learn(&mut self, round_trip_ns: u64) {
        self.shortest_ns = shorter(self.shortest_ns, round_trip_ns);
    }

    /// Whether a low call may be sent now; else when.
    pub(crate) fn admit_low(&mut self, now_ns: u64) -> Result<(), u64> {
        self.pass(now_ns);
        match self.rate {
            // It is looked again when it may have been decided otherwise.
            Some(_) if self.paid_up_to_ns > now_ns => {
                Err(self.paid_up_to_ns.min(self.seen.begun_ns + INTERVAL_NS).max(now_ns + 1))
            }
            _ => Ok(()),
        }
    }

    /// A low call that costs so much is sent.
    pub(crate) fn low_sent(&mut self, now_ns: u64, cost: u64) {
        self.pass(now_ns);
        self.seen.low_bytes += cost;
        if let Some(rate) = self.rate {
            let takes_ns = u128::from(cost) * 1_000_000_000 / u128::from(rate.max(1));
            let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
            self.paid_up_to_ns = self.paid_up_to_ns.max(now_ns).saturating_add(takes_ns);
        }
    }

    /// Bytes a second that low calls may have, if they may not have any, and why.
    pub(crate) fn state(&self) -> (Option<u64>, Pace) {
        (self.rate, self.pace)
    }

    fn limit(&self) -> u64 {
        match self.limit_ns {
            0 => self.shortest_ns.map_or(u64::MAX, |ns| 2 * ns + SLACK_NS),
            ns => ns,
        }
    }

    /// Counts the time, and decides where an interval is over.
    fn pass(&mut self, now_ns: u64) {
        let seen = &mut self.seen;
        seen.load += self.high_under_way * now_ns.saturating_sub(seen.changed_ns);
        seen.changed_ns = now_ns;
        let took_ns = now_ns.saturating_sub(seen.begun_ns);
        if took_ns >= INTERVAL_NS {
            self.decide(now_ns, took_ns);
            self.seen = Interval { begun_ns: now_ns, changed_ns: now_ns, ..Interval::default() };
        }
    }

    fn decide(&mut self, now_ns: u64, took_ns: u64) {
        let Interval { load, begun, measured, late, low_bytes, .. } = self.seen;
        let low_rate = per_second(low_bytes, took_ns);
        if self.rate.is_none() {
            self.free_rate = self.free_rate.max(low_rate);
        }
        let is_stuck = measured == 0 && self.high_under_way > 0 && took_ns > self.limit();
        if begun == 0 && self.high_under_way == 0 {
            let intervals = self.light_intervals + took_ns / INTERVAL_NS;
            self.light_intervals = intervals;
            if intervals >= LIGHT_INTERVALS {
                self.release();
            }
            return;
        }
        self.light_intervals = 0;
        let is_late = is_stuck || (measured > 0 && late * LATE_OF >= measured);
        self.look_in_vain(now_ns, is_late);
        if is_late {
            // Where low calls had nothing they are not why.
            if low_bytes > 0 {
                self.slow(self.rate.map_or(low_rate, |rate| rate.min(low_rate.max(1))) / 2);
            }
            self.pace = if self.rate.is_some() { Pace::Late } else { Pace::Free };
        } else if load >= MANY * took_ns {
            if self.rate.is_none() && low_bytes > 0 {
                self.slow(low_rate / 2);
            }
            self.pace = if self.rate.is_some() { Pace::Loaded } else { Pace::Free };
        } else {
            self.recover();
        }
    }

    /// Learns the limit anew where low calls cannot be why high ones are late.
    fn look_in_vain(&mut self, now_ns: u64, is_late: bool) {
        if !is_late || self.rate != Some(PER_SECOND_MIN) {
            self.in_vain_since_ns = None;
            return;
        }
        let since_ns = *self.in_vain_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) >= LONGER_NS && self.seen.shortest_ns.is_some() {
            self.shortest_ns = self.seen.shortest_ns;
            self.in_vain_since_ns = None;
        }
    }

    fn slow(&mut self, rate: u64) {
        let rate = rate.max(PER_SECOND_MIN);
        if self.rate.is_none_or(|before| rate < before) {
            self.slowed += 1;
        }
        self.rate = Some(rate);
    }

    fn recover(&mut self) {
        let Some(rate) = self.rate else { return };
        let faster = rate.saturating_add(rate / 4);
        if faster >= self.free_rate.saturating_mul(2) {
            return self.release();
        }
        (self.rate, self.pace) = (Some(faster), Pace::Recovering);
    }

    fn release(&mut self) {
        self.released += u64::from(self.rate.is_some());
        (self.rate, self.pace, self.paid_up_to_ns) = (None, Pace::Free, 0);
        self.free_rate = 0;
    }
}

fn shorter(before: Option<u64>, ns: u64) -> Option<u64> {
    Some(before.map_or(ns, |least| least.min(ns)))
}

fn per_second(bytes: u64, took_ns: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(took_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
