//! The load: half GET, half SET, keys by Zipf as in YCSB workload A, and what it measures.

use heliostat_base::clock;

use crate::table::{key, value, Table, VALUE};

/// Skew of YCSB's Zipf distribution.
const SKEW: f64 = 0.99;
/// Length of one place of the series over time.
pub const PLACE_NS: u64 = 5_000_000;

/// Numbers by Zipf's law, after Gray et al. 1994, then scattered over the keys.
pub struct Zipf {
    items: f64,
    alpha: f64,
    eta: f64,
    zeta: f64,
    state: u64,
}

impl Zipf {
    /// Numbers below `items`.
    pub fn new(items: usize, seed: u64) -> Self {
        let sum = |n: usize| (1..=n).map(|at| (at as f64).powf(-SKEW)).sum::<f64>();
        let zeta = sum(items);
        let n = items as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - SKEW)) / (1.0 - sum(2) / zeta);
        Self { items: n, alpha: 1.0 / (1.0 - SKEW), eta, zeta, state: seed | 1 }
    }

    /// 64 random bits (xorshift64*).
    pub fn bits(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next rank: 0 is the most frequent.
    pub fn rank(&mut self) -> u64 {
        let u = (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(SKEW) {
            return 1;
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }

    /// The next key's number: frequent keys do not lie side by side.
    pub fn next(&mut self) -> u64 {
        self.rank().wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.items as u64
    }
}

/// Latencies in bins of 3 %, so that millions of them cost no memory.
pub struct Latencies {
    bins: Vec<u64>,
    /// How many.
    pub count: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        Self { bins: vec![0; 1024], count: 0, longest_ns: 0 }
    }

    /// Notes one.
    pub fn note(&mut self, ns: u64) {
        let bin = ((ns.max(1) as f64).log2() * 24.0) as usize;
        self.bins[bin.min(1023)] += 1;
        self.count += 1;
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// The latency that `share` of all do not exceed, within 3 %.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut left = (self.count as f64 * share) as u64;
        for (bin, count) in self.bins.iter().enumerate() {
            if *count > left {
                return ((bin as f64 + 1.0) / 24.0).exp2().min(self.longest_ns as f64);
            }
            left -= count;
        }
        self.longest_ns as f64
    }
}

/// One client of the store, in its process.
pub struct Load<'a> {
    /// The store.
    pub table: Table<'a>,
    keys: Zipf,
    /// Operations per second, 0 for as many as it can.
    rate: f64,
    began: u64,
    done: u64,
    /// Longest latency (ns) and operations per place in time.
    pub series: Vec<[u64; 2]>,
    got: [u8; VALUE],
}

impl<'a> Load<'a> {
    /// A load that begins now. Series for `places` at most.
    pub fn new(table: Table<'a>, records: usize, rate: f64, places: usize) -> Self {
        let began = clock::monotonic_ns();
        let (series, got) = (vec![[0; 2]; places], [0; VALUE]);
        Self { table, keys: Zipf::new(records, 7), rate, began, done: 0, series, got }
    }

    /// Nanoseconds since it began.
    pub fn now(&self) -> u64 {
        clock::monotonic_ns() - self.began
    }

    /// One operation, when it is due. Its latency counts from the moment it was due, so that what
    /// waits behind a pause shows it; where as many as possible are done, from its begin.
    pub fn operate(&mut self, latencies: &mut Latencies) {
        let due = match self.rate {
            0.0 => self.now(),
            rate => (self.done as f64 * 1e9 / rate) as u64,
        };
        while self.now() < due {
            std::hint::spin_loop();
        }
        self.done += 1;
        let at = self.keys.next();
        match self.keys.bits() >> 63 {
            0 => self.table.set(&key(at), 0, |version| value(at, version)),
            _ => drop(std::hint::black_box(self.table.get(&key(at), &mut self.got))),
        }
        self.note(due, latencies);
    }

    /// What stood still from `since` until now, where nothing was due by a clock.
    pub fn stood_still(&mut self, since: u64, latencies: &mut Latencies) {
        if self.rate == 0.0 {
            self.note(since, latencies);
        }
    }

    fn note(&mut self, due: u64, latencies: &mut Latencies) {
        let now = self.now();
        latencies.note(now - due);
        if let Some(place) = self.series.get_mut((now / PLACE_NS) as usize) {
            place[0] = place[0].max(now - due);
            place[1] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_prefers_low_ranks_as_the_law_says() {
        let (mut keys, mut counts) = (Zipf::new(1000, 3), [0u32; 1000]);
        (0..200_000).for_each(|_| counts[keys.rank() as usize] += 1);
        let zeta: f64 = (1..=1000).map(|at| f64::from(at).powf(-SKEW)).sum();
        for rank in [0, 1, 99] {
            let share = f64::from(counts[rank]) / 200_000.0;
            let law = (rank as f64 + 1.0).powf(-SKEW) / zeta;
            assert!((share / law - 1.0).abs() < 0.3, "rank {rank}: {share}, not {law}");
        }
    }

    #[test]
    fn percentiles_are_exact_within_their_bins() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|ns| latencies.note(ns * 100));
        assert!((latencies.percentile(0.5) / 50_000.0 - 1.0).abs() < 0.04);
        assert_eq!(latencies.longest_ns, 100_000);
    }
}
