//! How long the first write to a page takes: watched, not watched, and after a fork.

use heliostat_backend_pages::live::LiveMemory;
use heliostat_base::clock::{self, CycleRate};
use heliostat_stub_snapshot::{EngineKind, Region, Settings};
use serde_json::{json, Value};

use crate::memory::Floats;
use crate::Failure;

const PAGE: usize = 4096;
const PAGES: usize = 16_384;
/// Every so many pages one is written, others in each version: few enough that no chunk turns hot,
/// and never the same ones running, which would be left unwatched.
const EVERY: usize = 5;
/// Bins per factor of ten, and the range: 1 ns to 1 ms.
const BINS_PER_DECADE: f64 = 40.0;
const BINS: usize = 240;

/// Times of single writes.
#[derive(Default)]
struct Times {
    ns: Vec<f64>,
    faults: i64,
}

/// Distributions of the first write to a page, over `rounds` versions of 64 MiB.
pub fn measure(rounds: usize) -> Result<Value, Failure> {
    let len = PAGES * PAGE / 8;
    let [plain, watched] = [Floats::private(len)?, Floats::private(len)?];
    let shared = forkable(len)?;
    for memory in [&plain, &watched, &shared] {
        write(memory, (0, 1), &CycleRate::of_machine(), &mut Times::default());
    }
    // SAFETY: `watched` was made before and so is dropped after the region.
    let memory = unsafe { LiveMemory::new(watched.start(), watched.bytes()) };
    let settings = Settings { engine: EngineKind::Tracked, ..Settings::default() };
    let mut region = Region::new(memory, settings)?;
    let rate = CycleRate::of_machine();
    let [mut unwatched, mut first, mut again, mut forked] = [(); 4].map(|()| Times::default());
    // Everything counts as written for the first two versions; that is not what is asked here.
    for _ in 0..2 {
        region.publish()?;
    }
    for round in 0..rounds {
        region.publish()?;
        let pages = (round % EVERY, EVERY);
        write(&plain, pages, &rate, &mut unwatched);
        write(&watched, pages, &rate, &mut first);
        write(&watched, pages, &rate, &mut again);
        beside_a_child(|| write(&shared, pages, &rate, &mut forked))?;
    }
    Ok(json!({
        "not watched": unwatched.json(), "watched, first write": first.json(),
        "watched, again": again.json(), "after fork": forked.json(),
        "bins_per_decade": BINS_PER_DECADE,
    }))
}

/// Memory that a child does get, so that the parent's writes copy its pages.
fn forkable(len: usize) -> Result<Floats, Failure> {
    let memory = Floats::private(len)?;
    // SAFETY: the range is that value's own; the advice concerns children only.
    match unsafe { libc::madvise(memory.start() as *mut _, memory.bytes(), libc::MADV_DOFORK) } {
        0 => Ok(memory),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Writes one word of every `every`th page from the `first` on, and notes how long each took.
fn write(memory: &Floats, (first, every): (usize, usize), rate: &CycleRate, into: &mut Times) {
    let before = minor_faults();
    // SAFETY: this process alone uses it; a child has a copy.
    let values = unsafe { memory.values_mut() };
    for page in (first..PAGES).step_by(every) {
        let word = &raw mut values[page * PAGE / 8];
        let began = clock::cycles();
        // SAFETY: inside the slice.
        unsafe { word.write_volatile(began as f64) };
        into.ns.push(rate.to_ns(clock::cycles() - began));
    }
    into.faults += minor_faults() - before;
}

fn minor_faults() -> i64 {
    // SAFETY: a plain structure of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the live structure.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_minflt
}

/// Runs `what` while a forked child holds the memory as it was.
fn beside_a_child(what: impl FnOnce()) -> Result<(), Failure> {
    // SAFETY: one thread; the child sleeps until it is killed.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(std::io::Error::last_os_error().into()),
        0 => loop {
            // SAFETY: neither takes a pointer.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        },
        pid => pid,
    };
    what();
    // SAFETY: a child of ours, which is waited for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    Ok(())
}

impl Times {
    fn json(&mut self) -> Value {
        self.ns.sort_by(f64::total_cmp);
        let mut bins = vec![0u64; BINS];
        for ns in &self.ns {
            let bin = (ns.max(1.0).log10() * BINS_PER_DECADE) as usize;
            bins[bin.min(BINS - 1)] += 1;
        }
        let at = |share: f64| self.ns[((self.ns.len() - 1) as f64 * share) as usize];
        let shares = [0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];
        let percentiles: Vec<_> = shares.map(|share| json!([share, at(share)])).into();
        let per_write = self.faults as f64 / self.ns.len() as f64;
        json!({ "bins": bins, "percentiles": percentiles, "writes": self.ns.len(),
            "faults_per_write": per_write })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the distribution would be of writes to pages that nobody watches.
    #[test]
    fn each_first_write_to_a_watched_page_is_a_fault_and_the_next_is_none() {
        if let Err(refused) = heliostat_backend_pages::track::probe() {
            return println!("skipped: {refused}");
        }
        let found = measure(8).unwrap();
        let faults = |name: &str| found[name]["faults_per_write"].as_f64().unwrap();
        assert!(faults("watched, first write") > 0.9, "{}", faults("watched, first write"));
        assert!(faults("watched, again") < 0.1 && faults("not watched") < 0.1);
    }
}
