//! Calls between nodes of a simulated network under thousands of seeded schedules of faults.
//!
//! Each schedule calls, posts, withdraws, cuts, heals, breaks, crashes and restarts at random, then
//! lets the network rest. What must hold is in `ledger`: no answer is invented, every call ends once
//! and in time, and what it says of its effect is true. A failure prints its seed;
//! `HELIOSTAT_SEED=n` runs that one alone, `HELIOSTAT_SEEDS=n` so many.

mod cluster;
mod ledger;

use cluster::Cluster;

const SEEDS: u64 = 2000;
const ACTIONS: usize = 150;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn run(seed: u64) -> ledger::Ends {
    let mut cluster = Cluster::new(seed);
    for _ in 0..ACTIONS {
        cluster.act();
    }
    cluster.rest();
    cluster.check_windows();
    cluster.ledger.finish()
}

/// Names the seed of a schedule that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: HELIOSTAT_SEED={} cargo test -p heliostat-backend-transport --test schedules", self.0);
        }
    }
}

#[test]
fn every_call_ends_once_in_time_and_truthfully_under_any_schedule_of_faults() {
    let first = number("HELIOSTAT_SEED");
    let seeds = first.map_or(0..number("HELIOSTAT_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let mut ends = ledger::Ends::default();
    for seed in seeds.clone() {
        let named = Named(seed);
        ends.add(&run(seed));
        drop(named);
    }
    println!("{} schedules: {ends:?}", seeds.end - seeds.start);
    // Schedules in which nothing goes wrong, or nothing goes well, would show nothing.
    assert!(first.is_some() || ends.all_happened(), "{ends:?}");
}

#[test]
fn the_same_seed_gives_the_same_end() {
    for seed in [3, 77, 1234] {
        assert_eq!(run(seed), run(seed));
    }
}
