//! What every transport has to show over loopback, between threads and between processes.
//!
//! A test binary that includes this has a test named `child_node`, which is the other process: it is
//! this binary, started again with `NODE` in its environment.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::error::{CallFailure, Effect, JoinFailure, LostCause};
use heliostat_backend_transport::greeting::JoinRefusal;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::transport::Transport;
use rustix::process::{kill_process, Pid, Signal};

use crate::station::{Station, HOLD, WATCHDOG};

const NODE: &str = "HELIOSTAT_TEST_NODE";
const SECRET: u8 = 7;
const SIZES: [usize; 9] = [0, 8, 100, 4096, 8191, 65_536, 1 << 20, 4 << 20, 8 << 20];

/// Bytes of which no two neighbours or pages are alike.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn assert_echoes(from: &Station, to: u64) {
    for bytes in SIZES {
        let answer = from.call(to, pattern(bytes)).expect("answered");
        assert!(answer == pattern(bytes), "{bytes} bytes came back changed");
    }
}

/// Messages of every size between two nodes of one process come back as they were.
pub fn echoes_between_threads<T: Transport + 'static>(make: fn() -> T) {
    let (one, two) = (Station::start(1, SECRET, make), Station::start(2, SECRET, make));
    one.join(two.address);
    assert_echoes(&one, 2);
    assert_echoes(&two, 1);
}

/// Many calls at once, more than the windows take, each have their own answer.
pub fn calls_at_once_have_their_own_answers<T: Transport + 'static>(make: fn() -> T) {
    let (one, two) = (Station::start(1, SECRET, make), Station::start(2, SECRET, make));
    one.join(two.address);
    let sizes = (0..400).map(|count| if count % 40 == 0 { 3 << 20 } else { count * 97 % 9000 });
    let begun: Vec<_> = sizes
        .enumerate()
        .map(|(count, bytes)| {
            let payload = [(count as u64).to_le_bytes().to_vec(), pattern(bytes)].concat();
            let from = if count % 3 == 0 { (&two, 1) } else { (&one, 2) };
            (payload.clone(), from.0.begin_call(from.1, b"", payload))
        })
        .collect();
    for (payload, answered) in begun {
        let answer = answered.recv_timeout(WATCHDOG).expect("ends").expect("answered");
        assert!(answer == payload, "an answer of another call");
    }
}

/// A node that leaves says so, and calls to it fail with their effect.
pub fn leaving_is_told_and_a_node_can_come_back<T: Transport + 'static>(make: fn() -> T) {
    let (one, two) = (Station::start(1, SECRET, make), Station::start(2, SECRET, make));
    one.join(two.address);
    let held = one.begin_call(2, HOLD, vec![1]);
    two.leave(1);
    let error = held.recv_timeout(WATCHDOG).expect("ends").expect_err("nobody answers");
    assert_eq!((error.node, error.effect), (Some(NodeId(2)), Effect::Unknown));
    assert_eq!(one.lost.recv_timeout(WATCHDOG), Ok((NodeId(2), LostCause::Left)));
    assert_eq!(two.lost.recv_timeout(WATCHDOG), Ok((NodeId(1), LostCause::LeftHere)));
    let error = one.call(2, vec![1]).expect_err("not joined");
    assert_eq!((error.effect, error.why), (Effect::NotSent, CallFailure::NoPeer));
    one.join(two.address);
    assert_echoes(&one, 2);
}

/// A node with another secret is refused by who listens.
pub fn another_secret_is_refused<T: Transport + 'static>(make: fn() -> T) {
    let (one, other) = (Station::start(1, SECRET, make), Station::start(2, 8, make));
    let refused = JoinFailure::Refused { why: JoinRefusal::Secret, is_theirs: true };
    assert_eq!(other.try_join(one.address), Err(refused));
    assert_eq!(one.counters().strangers, 1);
}

/// A node that is not there is unreachable, at once or at the handshake's end.
pub fn an_address_where_nobody_listens_is_not_joined<T: Transport + 'static>(make: fn() -> T) {
    let one = Station::start(1, SECRET, make);
    let gone = Station::start(2, SECRET, make).address;
    let failure = one.try_join(gone).expect_err("nobody listens");
    assert!(matches!(failure, JoinFailure::Ended(_) | JoinFailure::Deadline), "{failure:?}");
}

/// Another process with a node that echoes.
struct Process {
    child: Child,
    address: Address,
}

impl Process {
    fn start(number: u64) -> Process {
        Process::start_with(number, &[])
    }

    /// With these variables in its environment.
    fn start_with(number: u64, variables: &[(&str, &str)]) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "child_node", "--nocapture"])
            .env(NODE, number.to_string())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let address = lines
            .map(|line| line.expect("text"))
            .find_map(|line| {
                line.split_once("listens at ").map(|(_, text)| text.parse().expect("an address"))
            })
            .expect("it says where it listens");
        Process { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process: a node until the first one closes its input.
pub fn be_child_node<T: Transport + 'static>(make: fn() -> T) {
    let Ok(number) = std::env::var(NODE) else { return };
    let station = Station::start(number.parse().expect("a number"), SECRET, make);
    println!("\nlistens at {}", station.address);
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing).expect("the first process is there");
}

/// Three processes call each other.
pub fn three_processes_echo<T: Transport + 'static>(make: fn() -> T) {
    let (two, three) = (Process::start(2), Process::start(3));
    let one = Station::start(1, SECRET, make);
    one.join(two.address);
    one.join(three.address);
    assert_echoes(&one, 2);
    assert_echoes(&one, 3);
}

/// A process whose variables give it another version of the transport is not joined, and this one
/// serves the others.
#[allow(dead_code)] // Our own TCP transport has one version.
pub fn another_version_is_not_joined<T: Transport + 'static>(
    make: fn() -> T,
    variables: &[(&str, &str)],
) {
    let (other, three) = (Process::start_with(2, variables), Process::start(3));
    let one = Station::start(1, SECRET, make);
    let failure = one.try_join(other.address).expect_err("another version");
    println!("not joined: {failure:?}");
    one.join(three.address);
    assert_echoes(&one, 3);
}

/// A killed process is noticed by the end of its link, before its silence is.
pub fn a_killed_process_is_noticed_by_the_end_of_its_link<T: Transport + 'static>(make: fn() -> T) {
    let two = Process::start(2);
    let one = Station::start(1, SECRET, make);
    one.join(two.address);
    let held = one.begin_call(2, HOLD, pattern(100));
    one.call(2, vec![1]).expect("it lives");
    let killed = Instant::now();
    two.signal(Signal::KILL);
    let error = held.recv_timeout(WATCHDOG).expect("ends").expect_err("nobody answers");
    println!("noticed after {} ms", killed.elapsed().as_millis());
    assert_eq!((error.node, error.effect), (Some(NodeId(2)), Effect::Unknown));
    assert!(matches!(error.why, CallFailure::Lost(LostCause::Ended(_))), "{error}");
}

/// A process that does not run is noticed by its silence, and everybody else is served meanwhile.
pub fn a_stopped_process_is_noticed_by_its_silence<T: Transport + 'static>(make: fn() -> T) {
    let (two, three) = (Process::start(2), Process::start(3));
    let one = Station::start(1, SECRET, make);
    one.join(two.address);
    one.join(three.address);
    let held = one.begin_call(2, HOLD, vec![1]);
    one.call(2, vec![1]).expect("it lives");
    let stopped = Instant::now();
    two.signal(Signal::STOP);
    assert_echoes(&one, 3);
    let error = held.recv_timeout(WATCHDOG).expect("ends").expect_err("nobody answers");
    println!("noticed after {} ms", stopped.elapsed().as_millis());
    assert!(matches!(error.why, CallFailure::Lost(LostCause::Silent { .. })), "{error}");
    two.signal(Signal::CONT);
    one.join(two.address);
    assert_echoes(&one, 2);
}
