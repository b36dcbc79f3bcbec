//! `heliostat snapshot publish`: what a consumer sees of programs that know nothing of it.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use heliostat_backend_pages::live::LiveMemory;
use heliostat_client::session;
use heliostat_stub_snapshot::{attach, publish_as, Attachment, EngineKind, Region, Settings};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use support::*;

/// Not a test: the producer's part. Does nothing when run by itself.
#[test]
fn produce() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    session::configure(std::env::var("HELIOSTAT_SOCKET").unwrap(), "test".into());
    let bytes: &mut [u8] = Box::leak(vec![7u8; 100_000].into_boxed_slice());
    // SAFETY: `bytes` are leaked, so they live as long as the region.
    let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
    let settings = Settings { engine: EngineKind::Tracked, ..Settings::default() };
    let mut region = Region::new(memory, settings).unwrap();
    assert!(region.describe(b"bytes of mine"));
    let _region = publish_as("u", region).unwrap();
    println!("ready");
    for (line, at) in std::io::stdin().lines().zip(0..) {
        bytes[at] = line.unwrap().parse().unwrap();
        println!("did {}", bytes[at]);
    }
}

/// A publisher, and what it says of each version.
struct Publisher {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Publisher {
    fn start(daemon: &TestDaemon, words: &[&str]) -> Self {
        let mut command = daemon.command(&[&["publish", "--json"], words].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn version(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the publisher ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Ends it as a service manager would; what it said to people, once it has ended well.
    fn end(mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attached(daemon: &TestDaemon, name: &str) -> Attachment {
    session::configure(daemon.file("control.sock"), "test".into());
    attach(name).unwrap()
}

fn bytes_of(region: &Attachment) -> Vec<u8> {
    let version = region.latest().unwrap();
    let mut bytes = vec![0; version.len()];
    version.read(0, &mut bytes).unwrap();
    bytes
}

/// One test, since a test program has one session and so one control plane.
#[test]
fn consumers_read_regions_and_heaps_of_programs_that_do_nothing_for_it() {
    let Some(daemon) = TestDaemon::new() else { return };
    // A region whose producer publishes nothing, and tracks it with a userfaultfd of its own.
    let mut producer = daemon.producer("u");
    let mut publisher = Publisher::start(&daemon, &["u", "--every", "20ms"]);
    let first = publisher.version();
    assert_eq!(first["regions"][0]["name"], "u.outside");
    let is_tracked_by_itself = heliostat_backend_pages::track::probe().is_ok();
    assert!(!is_tracked_by_itself || first["regions"][0]["engine"] == "whole", "{first}");
    let region = attached(&daemon, "u.outside");
    assert_eq!(region.description(), b"bytes of mine");
    producer.tell("9");
    let told = publisher.version()["regions"][0]["number"].as_u64().unwrap();
    assert!(region.wait(told + 1, Some(WATCHDOG)));
    let bytes = bytes_of(&region);
    assert_eq!((bytes.len(), bytes[0], bytes[1], bytes[99_999]), (100_000, 9, 7, 7));
    assert!(!region.is_closed());
    let said = publisher.end();
    assert!(
        !is_tracked_by_itself || said.contains("u.outside is copied whole for every version"),
        "{said}"
    );
    assert!(region.is_closed(), "consumers hear that it ended");
    drop(producer);

    redis_holds_its_keys(&daemon);
}

/// A heap of Redis, by libc's allocator or its own, has what clients have set.
fn redis_holds_its_keys(daemon: &TestDaemon) {
    let socket = daemon.file("redis.sock");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--unixsocket", &socket]).stdout(Stdio::null());
    let Ok(mut redis) = command.spawn() else { return println!("skipped: no redis-server") };
    // The socket has its name before anybody listens on it.
    let mut connected = None;
    await_that("redis serves", || {
        connected = std::os::unix::net::UnixStream::connect(&socket).ok();
        connected.is_some()
    });
    let mut client = connected.unwrap();
    let mut answers = BufReader::new(client.try_clone().unwrap());
    for number in 0..2000 {
        write!(client, "SET key:{number} heliostat-value-{number:06}-of-a-known-kind\r\n").unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line, "+OK\r\n");
    }
    let pid = redis.id().to_string();
    let mut publisher = Publisher::start(daemon, &[&pid, "--as", "redis"]);
    let version = publisher.version();
    let names = version["regions"].as_array().unwrap().iter().map(|it| it["name"].as_str());
    let all: Vec<u8> = names.flat_map(|name| bytes_of(&attached(daemon, name.unwrap()))).collect();
    let found = values_in(&all).len();
    drop(publisher);
    write!(client, "PING\r\n").unwrap();
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    redis.kill().unwrap();
    redis.wait().unwrap();
    assert_eq!((found, line.as_str()), (2000, "+PONG\r\n"));
}

/// Numbers of the values that stand whole somewhere in `all`.
fn values_in(all: &[u8]) -> BTreeSet<u32> {
    const MARK: &[u8] = b"heliostat-value-";
    let starts = (0..all.len()).filter(|at| all[*at] == MARK[0] && all[*at..].starts_with(MARK));
    let number = |at: usize| {
        let text = all.get(at + MARK.len()..)?.get(..22)?;
        let (digits, rest) = text.split_at(6);
        (rest == b"-of-a-known-kind").then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
    };
    starts.filter_map(number).filter(|number| *number < 2000).collect()
}
