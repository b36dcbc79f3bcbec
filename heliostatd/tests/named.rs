//! Named regions between processes that are not under `heliostat run`: the library's way.
//!
//! The second process is this test program again, told by the environment which part it plays.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use heliostat_abi::code::Code;
use heliostat_backend_pages::live::LiveMemory;
use heliostat_client::session;
use heliostat_stub_snapshot::{
    attach, publish_as, queue, Attachment, EngineKind, NamedError, NamedRegion, PublishError,
    Region, Settings, Version,
};
use support::*;

const ROLE: &str = "HELIOSTATD_NAMED_ROLE";
const SOCKET: &str = "HELIOSTATD_NAMED_SOCKET";
const BYTES: usize = 3 * 4096 + 5;

/// Bytes that live as long as the process, so as long as any region over them.
fn bytes() -> &'static mut [u8] {
    Box::leak(vec![0u8; BYTES].into_boxed_slice())
}

fn named(name: &str, bytes: &[u8]) -> Result<NamedRegion, NamedError> {
    // SAFETY: `bytes` are leaked, see above.
    let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
    let settings = Settings { engine: EngineKind::Whole, ..Settings::default() };
    publish_as(name, Region::new(memory, settings).unwrap())
}

fn value(version: &Version) -> u8 {
    let mut bytes = vec![0; version.len()];
    version.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn version");
    bytes[0]
}

fn latest(region: &Attachment) -> u8 {
    value(&region.latest().unwrap())
}

/// Not a test: the part that the second process plays. Does nothing when run by itself.
#[test]
fn second_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    session::configure(std::env::var(SOCKET).unwrap(), "second".into());
    match role.as_str() {
        "pin" => {
            let version = attach("model/a").unwrap().latest().unwrap();
            println!("said: {}", value(&version));
            std::io::stdin().lines().next();
            println!("said: {}", value(&version));
        }
        "take" => {
            let mut steps = queue::attach("steps").unwrap();
            println!("said: attached");
            let mut item = Vec::new();
            while steps.wait(None) {
                assert!(steps.pop(&mut item));
                println!("said: {}", item[0]);
            }
            println!("said: the end");
        }
        _ => {
            let bytes = bytes();
            bytes.fill(77);
            let mut region = named("other", bytes).unwrap();
            region.publish().unwrap();
            println!("said: published");
            for _ in std::io::stdin().lines() {
                region.publish().unwrap();
                println!("said: published");
            }
            std::thread::sleep(WATCHDOG);
        }
    }
}

struct Second(Child, BufReader<ChildStdout>);

impl Second {
    fn start(role: &str, daemon: &Daemon) -> Second {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["second_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(SOCKET, daemon.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Second(child, stdout)
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        while self.1.read_line(&mut line).unwrap() > 0 {
            if let Some((_, said)) = line.split_once("said: ") {
                return said.trim().to_owned();
            }
            line.clear();
        }
        panic!("the second process said nothing");
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One test, since a process has one session.
#[test]
fn regions_are_published_and_found_by_name() {
    let daemon = Daemon::start();
    session::configure(daemon.socket().display().to_string(), "test".into());
    let own = bytes();
    let mut region = named("model/a", own).unwrap();
    assert_eq!((region.generation(), region.name().to_string().as_str()), (1, "/snapshot/model/a"));
    let again = named("model/a", own).map(|_| ());
    assert_eq!(again, Err(NamedError::Refused(Code::BadState, 0)));
    assert!(matches!(attach("nobody"), Err(NamedError::Refused(Code::NotFound, 0))));
    assert!(matches!(attach("no name"), Err(NamedError::Name(_))));
    pinned_by_others(&daemon, own, &mut region);
    drop(region);
    assert!(matches!(attach("model/a"), Err(NamedError::Refused(Code::NotFound, 0))));
    assert_eq!(named("model/a", own).unwrap().generation(), 2);
    the_producer_dies(&daemon, own);
    the_bell_rings(&daemon);
    a_queue_has_a_name_too(&daemon);
    the_control_plane_dies_before_it_tells(daemon, own);
}

/// Somebody has joined of whom nobody tells any more: what it may read stays, and that is said.
fn the_control_plane_dies_before_it_tells(daemon: Daemon, own: &[u8]) {
    let mut region = named("last", own).unwrap();
    let settings = queue::Settings { slots: 2, item_bytes: 1, ..queue::Settings::default() };
    let mut steps = queue::publish_as("steps", queue::Queue::new(settings).unwrap()).unwrap();
    let _readers = (attach("last").unwrap(), queue::attach("steps").unwrap());
    drop(daemon);
    let error = (0..8).find_map(|_| region.publish().err());
    assert_eq!(error, Some(PublishError::Lost));
    let error = (0..8).find_map(|at| steps.push(&[at]).err());
    assert_eq!(error, Some(queue::QueueError::Lost));
}

/// Who joins by name gets every item, is told of the end, and costs nothing once it is killed.
fn a_queue_has_a_name_too(daemon: &Daemon) {
    let settings = queue::Settings { slots: 2, item_bytes: 1, ..queue::Settings::default() };
    let mut steps = queue::publish_as("steps", queue::Queue::new(settings).unwrap()).unwrap();
    assert_eq!((steps.name().as_str(), steps.generation()), ("/snapshot/steps", 1));
    assert!(matches!(attach("steps"), Err(NamedError::Memory(_))), "a queue is no region");
    let mut readers = [Second::start("take", daemon), Second::start("take", daemon)];
    readers.iter_mut().for_each(|reader| assert_eq!(reader.said(), "attached"));
    for value in 0..20 {
        steps.push_wait(&[value], Some(WATCHDOG)).unwrap();
        readers.iter_mut().for_each(|reader| assert_eq!(reader.said(), value.to_string()));
    }
    readers[0].kill();
    for value in 20..40 {
        steps.push_wait(&[value], Some(WATCHDOG)).unwrap();
        assert_eq!(readers[1].said(), value.to_string());
    }
    drop(steps);
    assert_eq!(readers[1].said(), "the end");
    let again = queue::publish_as("steps", queue::Queue::new(settings).unwrap()).unwrap();
    assert_eq!(again.generation(), 2);
}

/// Versions stay while others pin them, and are free once the others are killed.
fn pinned_by_others(daemon: &Daemon, own: &mut [u8], region: &mut NamedRegion) {
    let mut publish = |value: u8| {
        own.fill(value);
        region.publish().map(|_| ())
    };
    publish(1).unwrap();
    let near = attach("model/a").unwrap();
    assert_eq!(latest(&near), 1);
    let mut first = Second::start("pin", daemon);
    assert_eq!(first.said(), "1");
    (2..30).for_each(|value| publish(value).unwrap());
    assert_eq!(latest(&near), 29);
    writeln!(first.0.stdin.take().unwrap()).unwrap();
    assert_eq!(first.said(), "1", "a pinned version changed");
    let mut holders: Vec<Second> = Vec::new();
    let mut refused = None;
    for value in 30..36 {
        if let Err(error) = publish(value) {
            refused = Some(error);
            break;
        }
        let mut holder = Second::start("pin", daemon);
        assert_eq!(holder.said(), value.to_string());
        holders.push(holder);
    }
    assert_eq!(refused, Some(PublishError::Full { alive: 4 }));
    holders.iter_mut().for_each(Second::kill);
    await_that("the killed let go", || publish(40).is_ok());
    (41..60).for_each(|value| publish(value).unwrap());
    assert_eq!(latest(&near), 59);
}

/// What was attached stays readable, and the name is free.
fn the_producer_dies(daemon: &Daemon, own: &[u8]) {
    let mut producer = Second::start("produce", daemon);
    producer.said();
    let attached = attach("other").unwrap();
    producer.kill();
    await_that("the name is free", || attach("other").is_err());
    assert_eq!(latest(&attached), 77);
    assert_eq!(named("other", own).unwrap().generation(), 2);
}

fn is_readable(region: &Attachment, limit_ms: i32) -> bool {
    let fd = region.bell_fd().unwrap().as_raw_fd();
    heliostat_base::process::poll_readable(fd, limit_ms).unwrap()
}

/// The fd tells of each version that was asked for, and of the end.
fn the_bell_rings(daemon: &Daemon) {
    let mut producer = Second::start("produce", daemon);
    producer.said();
    let known = attach("other").unwrap();
    assert!(known.arm(0), "version 1 is there");
    assert!(!known.arm(1));
    assert!(!is_readable(&known, 0));
    writeln!(producer.0.stdin.as_mut().unwrap()).unwrap();
    assert!(is_readable(&known, -1) && known.drain());
    assert_eq!((known.latest_number(), producer.said().as_str()), (2, "published"));
    // Unasked, the next one makes no noise.
    writeln!(producer.0.stdin.as_mut().unwrap()).unwrap();
    producer.said();
    assert!(!is_readable(&known, 0) && known.drain());
    // Whose bell the producer never fetched hears of its end as well.
    let unknown = attach("other").unwrap();
    assert!(!known.arm(3) && !unknown.arm(3));
    assert!(!is_readable(&known, 0) && !is_readable(&unknown, 0));
    producer.kill();
    for region in [known, unknown] {
        assert!(is_readable(&region, -1) && !region.drain());
        assert_eq!(latest(&region), 77);
    }
}
