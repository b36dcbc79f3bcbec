//! How much processor time this process takes, and that it takes next to none at rest.

use std::time::{Duration, Instant};

/// Nanoseconds that the threads of this process have run.
pub fn processor_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let run = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).expect("its times");
        text.split(' ').next().expect("a field").parse::<u64>().expect("a number")
    };
    tasks.map(|task| run(task.expect("a task"))).sum()
}

/// Checks that this process, whose nodes have nothing to do, runs for less than 2 % of a core.
pub fn assert_at_rest() {
    let (start, before_ns) = (Instant::now(), processor_ns());
    std::thread::sleep(Duration::from_secs(2));
    let ran_ns = processor_ns() - before_ns;
    let share = ran_ns as f64 / start.elapsed().as_nanos() as f64;
    println!("nodes at rest: {:.0} us in 2 s", ran_ns as f64 / 1e3);
    assert!(share < 0.02, "{share}");
}
