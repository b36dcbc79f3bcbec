//! Several server loops: one cache, sessions that do not touch each other, limits as with one loop.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::session::record::{Reply, Request};

const BLOCK: usize = 64 * 1024;
const LOOPS: usize = 3;

fn many_loops(more: &str) -> Daemon {
    Daemon::with(&format!("[delegated]\nloops = {LOOPS}\n{more}"), &[])
}

fn sample(daemon: &Daemon, blocks: usize) -> (PathBuf, Vec<u8>) {
    let path = daemon.folder().join("sample");
    let content: Vec<u8> = (0..blocks * BLOCK).map(|at| (at / 7 % 251) as u8).collect();
    write_file(&path, &content);
    (path, content)
}

fn status(daemon: &Daemon, name: &str) -> u64 {
    daemon.status()["delegated"][name].as_u64().unwrap()
}

/// The core of each loop, as people are told.
fn cores(daemon: &Daemon) -> Vec<Option<u64>> {
    let status = daemon.status();
    let loops = status["delegated"]["loops"].as_array().unwrap();
    loops.iter().map(|one| one["core"].as_u64()).collect()
}

/// Where the kernel lets each loop run, by the number in its thread's name.
fn kernels_cores(daemon: &Daemon) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let told = tasks.filter_map(|task| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().to_owned()
        };
        field("Name:")
            .starts_with("server-loop-")
            .then(|| (field("Name:"), field("Cpus_allowed_list:")))
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told.into_iter().map(|(_, cores)| cores).collect()
}

/// Sessions of each loop, as people are told.
fn spread(daemon: &Daemon) -> Vec<u64> {
    let status = daemon.status();
    let loops = status["delegated"]["loops"].as_array().unwrap();
    loops.iter().map(|one| one["sessions"].as_u64().unwrap()).collect()
}

#[test]
fn sessions_go_to_the_loop_with_the_fewest() {
    let daemon = many_loops("");
    let mut sessions: Vec<_> = (0..2 * LOOPS).map(|_| Delegate::new(&daemon)).collect();
    assert_eq!(spread(&daemon), [2; LOOPS]);
    drop(sessions.remove(1));
    await_that("the session has ended", || spread(&daemon).contains(&1));
    let place = spread(&daemon).iter().position(|count| *count == 1).unwrap();
    let late = Delegate::new(&daemon);
    assert_eq!(spread(&daemon), [2; LOOPS]);
    let explained = daemon.session().0.text(&Request::Explain { pid: std::process::id() });
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let loops = explained["delegated_loops"].as_array().unwrap();
    let its = loops.iter().find(|one| one["session"] == late.welcome.session.to_string()).unwrap();
    assert_eq!(its["loop"].as_u64(), Some(place as u64));
}

#[test]
fn sessions_of_all_loops_read_one_set_and_the_device_reads_it_once() {
    const BLOCKS: usize = 64;
    let daemon = many_loops("");
    let (path, content) = sample(&daemon, BLOCKS);
    let mut sessions: Vec<_> = (0..2 * LOOPS).map(|_| Delegate::new(&daemon)).collect();
    assert_eq!(spread(&daemon), [2; LOOPS]);
    let files: Vec<_> = sessions
        .iter_mut()
        .map(|session| session.show(&File::open(&path).unwrap(), false).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for (session, file) in sessions.iter_mut().zip(files) {
            let content = &content;
            // All at once, so that loops wait for each other's blocks.
            scope.spawn(move || {
                for at in (0..content.len()).step_by(BLOCK / 2) {
                    let (_, way, found) = session.read(file, at as u64, BLOCK as u32 / 2);
                    assert!(matches!(way, Way::Cached | Way::Filled), "{way:?} at {at}");
                    assert!(found == content[at..at + BLOCK / 2], "at {at}");
                }
            });
        }
    });
    assert_eq!(status(&daemon, "blocks_filled"), BLOCKS as u64);
}

#[test]
fn a_small_cache_that_loops_take_from_each_other_gives_right_bytes() {
    const BLOCKS: usize = 200;
    let daemon = many_loops("cache_bytes = 8388608\n");
    let (path, content) = sample(&daemon, BLOCKS);
    std::thread::scope(|scope| {
        for number in 0..LOOPS {
            let (daemon, path, content) = (&daemon, &path, &content);
            scope.spawn(move || {
                let mut session = Delegate::new(daemon);
                let file = session.show(&File::open(path).unwrap(), false).unwrap();
                let mut dice = 77 + number as u64;
                for _ in 0..1500 {
                    dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let at = (dice >> 33) as usize % (content.len() - 20_000);
                    let (_, _, found) = session.read(file, at as u64, 20_000);
                    assert!(found == content[at..at + 20_000], "at {at}");
                }
            });
        }
    });
    assert!(status(&daemon, "cache_bytes") <= 8 << 20);
}

#[test]
fn a_writer_outside_is_seen_on_every_loop() {
    let daemon = many_loops("");
    let (path, mut content) = sample(&daemon, 1);
    let mut sessions: Vec<_> = (0..LOOPS).map(|_| Delegate::new(&daemon)).collect();
    let files: Vec<_> = sessions
        .iter_mut()
        .map(|session| session.show(&File::open(&path).unwrap(), false).unwrap())
        .collect();
    for round in 0..10 {
        content[100] = round;
        std::fs::write(&path, &content).unwrap();
        for (session, file) in sessions.iter_mut().zip(&files) {
            assert_eq!(session.read(*file, 0, 4096).2, content[..4096]);
        }
    }
}

#[test]
fn a_forged_ring_on_one_loop_ends_that_session_only() {
    let daemon = many_loops("");
    let (path, content) = sample(&daemon, 2);
    let mut sessions: Vec<_> = (0..LOOPS + 1).map(|_| Delegate::new(&daemon)).collect();
    let mut bad = sessions.remove(0);
    bad.push(&[1, 2, 3]);
    await_that("the session has ended", || status(&daemon, "sessions") == LOOPS as u64);
    for session in &mut sessions {
        let file = session.show(&File::open(&path).unwrap(), false).unwrap();
        assert_eq!(session.read(file, 50, 4096).2, content[50..4146]);
    }
}

#[test]
fn sessions_that_die_with_reads_under_way_leave_the_other_loops_alone() {
    let daemon = many_loops("cache_bytes = 4194304\n");
    let (path, content) = sample(&daemon, 100);
    let mut stays: Vec<_> = (0..LOOPS).map(|_| Delegate::new(&daemon)).collect();
    let files: Vec<_> = stays
        .iter_mut()
        .map(|session| session.show(&File::open(&path).unwrap(), false).unwrap())
        .collect();
    for round in 0..5 {
        let mut dies = Delegate::new(&daemon);
        let file = dies.show(&File::open(&path).unwrap(), false).unwrap();
        for at in 0..100 {
            dies.submit(&read(file, at * BLOCK as u64, 4096, at));
        }
        // Its end of everything closes as at a kill: the kernel says so, not the session.
        drop(dies);
        for (number, (session, file)) in stays.iter_mut().zip(&files).enumerate() {
            let at = (round * LOOPS + number) * BLOCK;
            let (_, _, found) = session.read(*file, at as u64, 4096);
            assert!(found == content[at..at + 4096], "round {round}, session {number}");
        }
    }
    await_that("the dead are gone", || status(&daemon, "sessions") == LOOPS as u64);
}

#[test]
fn limits_are_the_same_however_many_loops_there_are() {
    let daemon = many_loops("sessions = 4\noperations_per_second = 20\n");
    let (path, _) = sample(&daemon, 1);
    let mut sessions: Vec<_> = (0..4).map(|_| Delegate::new(&daemon)).collect();
    let (mut client, _welcome) = daemon.session();
    let (fd, _window) = heliostat_base::mapping::SharedMapping::create(c"window", WINDOW).unwrap();
    let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
    let (reply, _) = client.ask_with(&Request::Delegate { members: 0 }, &[raw]);
    assert!(matches!(reply, Reply::Refused { limit: 4, .. }), "{reply:?}");
    // Two may burst, then 50 ms each: 12 operations take half a second, on whatever loop.
    std::thread::scope(|scope| {
        for session in &mut sessions {
            let path = &path;
            scope.spawn(move || {
                let file = session.show(&File::open(path).unwrap(), false).unwrap();
                let began = Instant::now();
                for _ in 0..12 {
                    assert_eq!(session.read(file, 0, 100).0, 100);
                }
                assert!(began.elapsed() >= Duration::from_millis(400));
            });
        }
    });
}

/// Twelve reads take four times as long for each of four sessions that have a rate together.
#[test]
fn sessions_on_several_loops_have_a_rate_together_where_the_configuration_says_so() {
    let rate = |per: &str, more: &str| {
        let text = format!("[[rate]]\nper = \"{per}\"\noperations_per_second = 40\n{more}");
        many_loops(&format!("sessions = 4\n{text}"))
    };
    let all_names = "names = [\"/file/*\"]\n";
    for daemon in [rate("user", ""), rate("rule", ""), rate("user", all_names)] {
        let (path, _) = sample(&daemon, 1);
        let mut sessions: Vec<_> = (0..4).map(|_| Delegate::new(&daemon)).collect();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for session in &mut sessions {
                let path = &path;
                scope.spawn(move || {
                    let file = session.show(&File::open(path).unwrap(), false).unwrap();
                    (0..12).for_each(|_| assert_eq!(session.read(file, 0, 100).0, 100));
                });
            }
        });
        // 48 operations of which four are a burst: 1.1 s. By themselves each would take 0.2 s.
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(900), "{took:?}");
    }
}

#[test]
fn each_configured_core_has_a_loop_that_stays_there_and_a_core_that_is_not_there_is_shared() {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let all = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first: u64 = all.split(['-', ',']).next().unwrap().parse().unwrap();
    let last: u64 = all.rsplit(['-', ',']).next().unwrap().parse().unwrap();
    let mut wanted = vec![first, last];
    wanted.dedup();
    const NOWHERE: u64 = 8191;
    let named: Vec<_> = wanted.iter().copied().chain([NOWHERE]).collect();
    let daemon = Daemon::with(&format!("[delegated]\ncores = {named:?}\n"), &[]);
    let (path, content) = sample(&daemon, 4);
    let mut sessions: Vec<_> = (0..2 * named.len()).map(|_| Delegate::new(&daemon)).collect();
    assert_eq!(spread(&daemon), vec![2; named.len()]);
    let said: Vec<_> = wanted.iter().copied().map(Some).chain([None]).collect();
    assert_eq!(cores(&daemon), said);
    for (at, session) in sessions.iter_mut().enumerate() {
        let file = session.show(&File::open(&path).unwrap(), false).unwrap();
        assert_eq!(session.read(file, at as u64 * 1000, 4096).2, content[at * 1000..][..4096]);
    }
    let held: Vec<_> = wanted.iter().map(u64::to_string).chain([all.to_owned()]).collect();
    assert_eq!(kernels_cores(&daemon), held, "after it has worked as well");
    let explained = daemon.session().0.text(&Request::Explain { pid: std::process::id() });
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    for one in explained["delegated_loops"].as_array().unwrap() {
        assert_eq!(one["core"].as_u64(), said[one["loop"].as_u64().unwrap() as usize]);
    }
}
