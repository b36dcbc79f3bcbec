//! Nodes over UCX at rest: no processor but for signs of life, and no signal of the program's taken.
//!
//! Alone in its process, since it measures the process.

use std::time::{Duration, Instant};

#[path = "../../transport/tests/loopback/station.rs"]
#[allow(dead_code)]
mod station;

use heliostat_backend_ucx::{version, Ucx};
use station::Station;

fn ucx() -> Ucx {
    Ucx::listen("127.0.0.1:0".parse().expect("an address")).expect("UCX listens")
}

/// Nanoseconds that the threads of this process have run.
fn processor_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let run = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).expect("its times");
        text.split(' ').next().expect("a field").parse::<u64>().expect("a number")
    };
    tasks.map(|task| run(task.expect("a task"))).sum()
}

/// The signals that this process has handlers for.
fn caught_signals() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("its status");
    status.lines().find(|line| line.starts_with("SigCgt")).expect("a line").to_string()
}

#[test]
fn two_joined_nodes_at_rest_run_for_less_than_two_percent_of_a_core_and_take_no_signal() {
    let signals = caught_signals();
    if let Err(why) = version() {
        println!("not tested: {why}");
        return;
    }
    let (one, two) = (Station::start(1, 7, ucx), Station::start(2, 7, ucx));
    assert_eq!(caught_signals(), signals);
    one.join(two.address);
    one.call(2, vec![1; 100_000]).expect("answered");
    let (start, before_ns) = (Instant::now(), processor_ns());
    std::thread::sleep(Duration::from_secs(2));
    let ran_ns = processor_ns() - before_ns;
    let share = ran_ns as f64 / start.elapsed().as_nanos() as f64;
    println!("two nodes at rest: {:.0} us in 2 s", ran_ns as f64 / 1e3);
    assert!(share < 0.02, "{share}");
    assert!(one.lost.try_recv().is_err(), "they stay joined");
}
