//! Who makes a log is killed at any time: the log is there and whole, or nothing is.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heliostat_backend_durable::{create, open, LOG_BYTES};

const FILE: &str = "HELIOSTAT_MADE_LOG";
const BEGUN: &str = "begun";

/// Not a test of its own: what is killed.
#[test]
#[ignore = "the test beside it starts it"]
fn child() {
    let Some(path) = std::env::var_os(FILE) else { return };
    println!("\n{BEGUN}");
    create(Path::new(&path), LOG_BYTES).unwrap();
}

/// Makes a log in another process, which is killed after so long, or as soon as there is a name.
fn make_and_kill(path: &Path, after: Duration) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    let made = command.env(FILE, path).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = made.unwrap();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert!(lines.any(|line| line.unwrap() == BEGUN));
    let begun = Instant::now();
    while begun.elapsed() < after && !path.exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_is_killed_while_he_makes_a_log_leaves_a_whole_one_or_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("log");
    let mut without = 0;
    for after_ms in [0, 1, 3, 7, 15, 30, 60] {
        make_and_kill(&path, Duration::from_millis(after_ms));
        if !path.exists() {
            without += 1;
            continue;
        }
        drop(open(&path, None).unwrap_or_else(|error| panic!("{after_ms} ms: {error}")));
        std::fs::remove_file(&path).unwrap();
    }
    assert!(without > 0, "it was never early enough");
    create(&path, 1 << 20).unwrap();
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "what was killed has left something");
}
