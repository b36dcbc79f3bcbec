//! Measures the ring beside what it is compared with, and writes `target/bench/ring.json`.
//!
//! Both sides of a comparison run in turn in this one process, at least five times, with the bare
//! cache-line round trip of the moment beside them: on virtual machines that figure changes under
//! one's hands, and figures from different runs cannot be compared. `iceoryx2` takes part when the
//! feature of that name is on.
#![warn(missing_docs)]

#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod locks;
mod pingpong;
mod report;
mod roundtrip;
mod scaling;

use heliostat_base::affinity;
use heliostat_ring::{Refresh, RingError};
use locks::{Mcs, Ticket};
use report::Row;

/// Alternating repetitions of every comparison.
const REPETITIONS: usize = 7;

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Bench {
    cores: (usize, usize),
    rows: Vec<Row>,
}

/// What a comparison is, apart from its figures.
struct Question<'a> {
    name: &'a str,
    unit: &'static str,
    more_is_better: bool,
    aim: &'a str,
    cores: usize,
    note: &'a str,
}

fn main() -> Result<(), Failure> {
    let allowed: Vec<usize> = affinity::allowed(0)?.iter().collect();
    let cores = (allowed[0], *allowed.get(1).unwrap_or(&allowed[0]));
    let mut bench = Bench { cores, rows: Vec::new() };
    report::print_heading();
    // Arguments choose parts: round, refresh, same, scaling, copy. None means all.
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let runs = |part: &str| chosen.is_empty() || chosen.iter().any(|name| name == part);
    if cores.0 != cores.1 && runs("round") {
        bench.round_trips()?;
    }
    if cores.0 != cores.1 && runs("refresh") {
        bench.refresh()?;
    }
    if runs("same") {
        bench.same_core()?;
    }
    if runs("scaling") {
        bench.scaling()?;
    }
    if runs("copy") {
        bench.copies()?;
    }
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string());
    let file = if chosen.is_empty() { "bench/ring.json" } else { "bench/ring-part.json" };
    let path = std::path::Path::new(&folder).join(file);
    report::write(&bench.rows, &path)?;
    println!("written: {}", path.display());
    Ok(())
}

impl Bench {
    /// Measures both sides in turn and prints a row.
    fn compare(
        &mut self,
        question: Question,
        mut ours: impl FnMut() -> Result<f64, Failure>,
        mut theirs: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        let before = self.ping_pong();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..REPETITIONS {
            a.push(ours()?);
            b.push(theirs()?);
        }
        let Question { name, unit, more_is_better, aim, cores, note } = question;
        let row = Row {
            name: name.to_string(),
            ours: a,
            theirs: b,
            unit,
            more_is_better,
            aim: aim.to_string(),
            cores,
            note: note.to_string(),
            ping_pong_ns: (before, self.ping_pong()),
        };
        row.print();
        self.rows.push(row);
        Ok(())
    }

    fn ping_pong(&self) -> f64 {
        if self.cores.0 == self.cores.1 {
            return f64::NAN;
        }
        pingpong::line_ns(self.cores)
    }

    fn round_trips(&mut self) -> Result<(), Failure> {
        let cores = self.cores;
        let ours = move || Ok(roundtrip::ours_ns(cores, 50_000)?);
        let question = Question {
            name: "round trip 64 B, two cores, vs bare line",
            unit: "ns",
            more_is_better: false,
            aim: "ratio >= 0.67 (at most 1.5x the bare line)",
            cores: 2,
            note: "two spsc rings, doorbells included, threads of one process, two mappings",
        };
        self.compare(question, ours, || Ok(pingpong::line_ns(cores)))?;
        #[cfg(feature = "iceoryx2")]
        {
            let question = Question {
                name: "round trip 64 B, two cores, vs iceoryx2",
                unit: "ns",
                more_is_better: false,
                aim: "ratio > 1",
                cores: 2,
                note: "iceoryx2 ipc publish-subscribe, polled without pause and without events",
            };
            self.compare(question, ours, || iceoryx::theirs_ns(cores, 50_000))?;
        }
        Ok(())
    }

    fn same_core(&mut self) -> Result<(), Failure> {
        let core = self.cores.0;
        let ours = move || Ok(roundtrip::ours_ns((core, core), 10_000)?);
        let question = Question {
            name: "round trip 64 B, same core, vs bare yields",
            unit: "ns",
            more_is_better: false,
            aim: "at most 4000 ns",
            cores: 1,
            note: "the other side is two threads that yield after every look at one word",
        };
        self.compare(question, ours, || Ok(pingpong::yield_ns(core)))?;
        #[cfg(feature = "iceoryx2")]
        {
            let question = Question {
                name: "round trip 64 B, same core, vs iceoryx2",
                unit: "ns",
                more_is_better: false,
                aim: "ratio > 1",
                cores: 1,
                note: "iceoryx2 polled with a yield after every look",
            };
            self.compare(question, ours, || iceoryx::theirs_ns((core, core), 10_000))?;
        }
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), Failure> {
        let cores = self.cores;
        let question = Question {
            name: "stream 64 B, lazy vs eager control words",
            unit: "M/s",
            more_is_better: true,
            aim: "ratio >= 1.4",
            cores: 2,
            note: "one spsc ring of 64 KiB; eager reads the other side's word at every operation",
        };
        let run = move |refresh| Ok(scaling::stream_rate(cores, refresh)?);
        self.compare(question, || run(Refresh::Lazy), || run(Refresh::Eager))
    }

    fn scaling(&mut self) -> Result<(), Failure> {
        let cores = [self.cores.0, self.cores.1];
        for threads in [1, 2, 4, 8, 16, 32, 64] {
            let ours = || Ok(scaling::ours_pairs(threads, &cores)? / 1e3);
            let mut against = |lock: &str, aim: &str, theirs: &dyn Fn() -> f64| {
                let name = format!("pairs 64 B, {threads} threads, vs two-lock {lock}");
                let question = Question {
                    name: &name,
                    unit: "k/s",
                    more_is_better: true,
                    aim,
                    cores: 2,
                    note: "threads pinned round robin; the lock covers the 64 B copy",
                };
                self.compare(question, ours, || Ok(theirs() / 1e3))
            };
            let ticket_aim = if threads > 2 { "ratio >= 4" } else { "" };
            let pairs = &cores;
            against("mcs", "ratio >= 1.5", &|| {
                scaling::two_lock_pairs::<Mcs<false>>(threads, pairs)
            })?;
            against("ticket", ticket_aim, &|| {
                scaling::two_lock_pairs::<Ticket<false>>(threads, pairs)
            })?;
            against("mcs+yield", "", &|| scaling::two_lock_pairs::<Mcs<true>>(threads, pairs))?;
            against("ticket+yield", "", &|| {
                scaling::two_lock_pairs::<Ticket<true>>(threads, pairs)
            })?;
        }
        Ok(())
    }

    fn copies(&mut self) -> Result<(), RingError> {
        let before = self.ping_pong();
        let runs: Vec<_> =
            (0..REPETITIONS).map(|_| heliostat_ring::copy::measure()).collect::<Result<_, _>>()?;
        for (i, sample) in runs[0].iter().enumerate() {
            let row = Row {
                name: format!("copy {} B, nontemporal vs memcpy", sample.bytes),
                ours: runs.iter().map(|run| run[i].nontemporal_ns).collect(),
                theirs: runs.iter().map(|run| run[i].memcpy_ns).collect(),
                unit: "ns",
                more_is_better: false,
                aim: "the border is where the ratio passes 1".to_string(),
                cores: 1,
                note: "targets rotate through 32 MiB".to_string(),
                ping_pong_ns: (before, before),
            };
            row.print();
            self.rows.push(row);
        }
        heliostat_ring::copy::calibrate()?;
        println!("non-temporal from {} B", heliostat_ring::copy::nontemporal_from());
        Ok(())
    }
}
