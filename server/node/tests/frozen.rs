//! A node whose process stands still past its lease while its links live, and that wakes in the midst of
//! a write.
//!
//! The node is a process of its own, this test binary again, so that all of it can be stopped. Both
//! sides let a link be silent for a minute: nothing but the fence ends one here.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::tcp::Tcp;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{
    Asker, Identity, NodeCall, NodeId, NodeLimits, Nodes, NodesEvent, NodesEvents, PeerNode, Peers,
    Secret, Served, Transport,
};
use rustix::event::{eventfd, EventfdFlags};
use rustix::process::{kill_process, Pid, Signal};

/// Longer than anything here takes; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(60);
const SECOND_NS: u64 = 1_000_000_000;
const SERVICE: u16 = 5;
const TARGET: &str = "FROZEN_TARGET";

/// What the other node keeps: the last number that was written, and how many were.
#[derive(Clone, Default)]
struct Word(Arc<(AtomicU64, AtomicU64)>);

impl Peers for Word {
    type Order = ();

    fn request(&mut self, _: Asker, header: &[u8], payload: &[u8]) -> Served {
        let Ok(number) = header.try_into().map(u64::from_le_bytes) else { return Served::Refuse };
        self.0 .0.store(number, Ordering::Relaxed);
        self.0 .1.fetch_add(1, Ordering::Relaxed);
        Served::Reply { header: header.to_vec(), payload: payload.to_vec() }
    }

    fn order(&mut self, (): ()) {}

    fn lost(&mut self, _: PeerNode) {}
}

impl Word {
    fn last(&self) -> u64 {
        self.0 .0.load(Ordering::Relaxed)
    }

    fn count(&self) -> u64 {
        self.0 .1.load(Ordering::Relaxed)
    }
}

struct Station {
    nodes: Nodes,
    events: Receiver<NodesEvent>,
    _bell: Arc<OwnedFd>,
}

impl Station {
    fn start(node: u64) -> Station {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a bell"));
        let (sender, events) = channel();
        let secret = Secret::new([3; 32]);
        let identity = Identity { node: NodeId(node), incarnation: 7, secret };
        let silence_ns_max = 60 * SECOND_NS;
        let limits = NodeLimits { silence_ns_max, ..NodeLimits::default() };
        let listen = || {
            let tcp = Tcp::listen("127.0.0.1:0".parse().expect("an address"));
            tcp.map(|tcp| Box::new(tcp) as Box<dyn Transport>)
        };
        let nodes = Nodes::start(identity, limits, NodesEvents::new(sender, bell.clone()), listen);
        let Ok(nodes) = nodes else { panic!("no node") };
        nodes.use_registry();
        Station { nodes, events, _bell: bell }
    }

    fn joined(&self) -> PeerNode {
        loop {
            if let NodesEvent::Joined { peer, .. } = self.events.recv_timeout(WATCHDOG).unwrap() {
                return peer;
            }
        }
    }

    /// Whether a link was lost, as far as it was told.
    fn has_lost(&self) -> bool {
        self.events.try_iter().any(|event| matches!(event, NodesEvent::Lost { .. }))
    }
}

/// The node that is stopped. It does what it is told, line by line: `hold NANOSECONDS`, `write NUMBER`,
/// and `write_on NUMBER`, which writes from there on until a write fails.
#[test]
fn frozen_process() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let target: Address = target.parse().unwrap();
    let one = Station::start(1);
    one.nodes.join(NodeId(2), target, monotonic_ns() + 30 * SECOND_NS);
    let link = one.joined().link;
    println!("> joined");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (what, number) = line.split_once(' ').unwrap();
        let number: u64 = number.parse().unwrap();
        match what {
            "hold" => {
                one.nodes.hold(monotonic_ns() + number);
                one.nodes.admit(link);
                println!("> held");
            }
            "write" => println!("> {}", write(&one, number)),
            _ => {
                let failed = (number..).find(|number| write(&one, *number) != "written");
                println!("> failed {}", failed.unwrap());
            }
        }
    }
    std::process::exit(0);
}

fn write(one: &Station, number: u64) -> String {
    let (sender, outcome) = channel();
    let call = NodeCall {
        node: NodeId(2),
        link: None,
        service: SERVICE,
        header: number.to_le_bytes().to_vec(),
        payload: Vec::new(),
        deadline_ns: monotonic_ns() + 30 * SECOND_NS,
    };
    let begun = one.nodes.caller().call(call, move |outcome| drop(sender.send(outcome)));
    if let Err(error) = begun {
        return format!("refused {:?}", error.effect);
    }
    match outcome.recv_timeout(WATCHDOG).unwrap() {
        Ok(_) => "written".into(),
        Err(error) => format!("refused {:?}", error.effect),
    }
}

/// The node that is stopped, as the test sees it.
struct Frozen {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Frozen {
    fn start(two: &Station) -> Frozen {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "frozen_process", "--nocapture"]);
        command.env(TARGET, two.nodes.address().to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some((_, answer)) = line.split_once("> ") {
                    let _ = sender.send(answer.to_owned());
                }
            }
        });
        let frozen = Frozen { child, orders, answers };
        assert_eq!(frozen.hear(), "joined");
        frozen
    }

    fn send(&mut self, line: &str) {
        writeln!(self.orders, "{line}").unwrap();
    }

    fn hear(&self) -> String {
        self.answers.recv_timeout(WATCHDOG).unwrap()
    }

    fn say(&mut self, line: &str) -> String {
        self.send(line);
        self.hear()
    }

    /// Stops the whole process; returns when all its threads stand still.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let begun = Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < WATCHDOG, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut stats = tasks.map(|it| std::fs::read_to_string(it.unwrap().path().join("stat")));
        stats.all(|stat| {
            stat.is_ok_and(|it| it.rsplit_once(") ").is_some_and(|it| it.1.starts_with('T')))
        })
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node that serves the word, and the other, which has a lease of so many nanoseconds.
fn pair(lease_ns: u64) -> (Station, Word, Frozen, PeerNode) {
    let (two, word) = (Station::start(2), Word::default());
    two.nodes.host(SERVICE, word.clone());
    two.nodes.hold(monotonic_ns() + 300 * SECOND_NS);
    let mut frozen = Frozen::start(&two);
    let peer = two.joined();
    two.nodes.admit(peer.link);
    assert_eq!(frozen.say(&format!("hold {lease_ns}")), "held");
    (two, word, frozen, peer)
}

const LEASE_NS: u64 = SECOND_NS;
const LONGER: Duration = Duration::from_millis(1300);

#[test]
fn a_node_that_wakes_after_its_lease_is_fenced_off_though_its_link_lives() {
    let (two, word, mut frozen, _) = pair(LEASE_NS);
    assert_eq!(frozen.say("write 1"), "written");
    frozen.stop();
    // It finds this when it wakes.
    frozen.send("write 2");
    std::thread::sleep(LONGER);
    assert!(!two.has_lost(), "the link lives: the other node has seen no end of it");
    frozen.signal(Signal::CONT);
    assert_eq!(frozen.hear(), "refused NotSent");
    assert_eq!((word.last(), word.count()), (1, 1));
    assert_eq!(frozen.say("write 3"), "refused NotSent");
    assert_eq!(word.count(), 1);
}

/// Without this the test above could pass because stopped nodes are cut off.
#[test]
fn a_node_that_wakes_within_its_lease_writes_on_the_same_link() {
    let (two, word, mut frozen, _) = pair(300 * SECOND_NS);
    assert_eq!(frozen.say("write 1"), "written");
    frozen.stop();
    frozen.send("write 2");
    std::thread::sleep(LONGER);
    frozen.signal(Signal::CONT);
    assert_eq!(frozen.hear(), "written");
    assert_eq!((word.last(), word.count()), (2, 2));
    assert!(!two.has_lost());
}

/// Stopped anywhere in the midst of writes, also behind its last look at the clock: what it then still
/// sends meets a link that the other node has left when it heard of the death.
#[test]
fn a_node_that_is_stopped_amid_its_writes_writes_nothing_after_it_was_declared_dead() {
    for round in 0..5 {
        let (two, word, mut frozen, peer) = pair(LEASE_NS);
        frozen.send("write_on 1");
        std::thread::sleep(Duration::from_millis(20 + 37 * round));
        frozen.stop();
        std::thread::sleep(LONGER);
        assert!(word.count() > 0, "it was in the midst of it");
        two.nodes.leave_link(peer.link);
        while !two.has_lost() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let written = (word.last(), word.count());
        frozen.signal(Signal::CONT);
        let failed = frozen.hear();
        let failed: u64 = failed.strip_prefix("failed ").unwrap().parse().unwrap();
        assert_eq!((word.last(), word.count()), written, "after it was declared dead");
        assert!(failed == written.0 || failed == written.0 + 1, "{failed} {written:?}");
    }
}
