//! A token bucket: how many connections somebody may have in a time.
//!
//! A bucket holds at most `burst` tokens and gains `per_second`. Time is the caller's monotonic
//! nanoseconds. What several threads take from together is a [`Meter`](super::Meter).

const NS_PER_SECOND: u128 = 1_000_000_000;

/// How fast and how much at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Tokens gained per second.
    pub per_second: u64,
    /// Most tokens held.
    pub burst: u64,
}

impl Rate {
    /// A part of it, and at least one.
    pub fn percent(self, part: u64) -> Rate {
        let of = |whole: u64| (whole.saturating_mul(part) / 100).max(1);
        Rate { per_second: of(self.per_second), burst: of(self.burst) }
    }

    /// The level of a full bucket.
    fn full(self) -> i128 {
        (u128::from(self.burst) * NS_PER_SECOND) as i128
    }
}

/// One bucket. Its rate is told with each use, since one rate serves many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Tokens times nanoseconds per second, so that no fraction is lost.
    level: i128,
    seen_ns: u64,
}

impl Bucket {
    /// A full bucket.
    pub fn full(rate: Rate, now_ns: u64) -> Bucket {
        Bucket { level: rate.full(), seen_ns: now_ns }
    }

    /// Takes tokens if the bucket has as many.
    pub fn take(&mut self, rate: Rate, tokens: u64, now_ns: u64) -> bool {
        self.refill(rate, now_ns);
        let wanted = level_of(tokens);
        let is_enough = self.level >= wanted;
        if is_enough {
            self.level -= wanted;
        }
        is_enough
    }

    /// Gives back what was taken for something that was not done.
    pub fn give_back(&mut self, tokens: u64) {
        self.level = self.level.saturating_add(level_of(tokens));
    }

    /// Whether it is full at a time.
    pub fn is_full(&self, rate: Rate, now_ns: u64) -> bool {
        let mut then = *self;
        then.refill(rate, now_ns);
        then.level >= rate.full()
    }

    fn refill(&mut self, rate: Rate, now_ns: u64) {
        let passed = u128::from(now_ns.saturating_sub(self.seen_ns));
        self.seen_ns = self.seen_ns.max(now_ns);
        let gained = passed.saturating_mul(u128::from(rate.per_second));
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.level = self.level.saturating_add(gained).min(rate.full());
    }
}

fn level_of(tokens: u64) -> i128 {
    (u128::from(tokens) * NS_PER_SECOND) as i128
}
