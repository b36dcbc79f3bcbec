//! A control plane of its own for each test, and producers in processes of their own.
//!
//! A producer is the test program again, told by the environment what to publish.

#![allow(dead_code)] // each test file uses its part

pub mod producer;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use heliostat_base::packet::PacketSocket;

/// The command under test.
pub const HELIOSTAT: &str = env!("CARGO_BIN_EXE_heliostat");
/// Longest wait for something that takes milliseconds; only a hang reaches it.
pub const WATCHDOG: Duration = Duration::from_secs(60);
/// Tells the test program which producer it is.
pub const ROLE: &str = "HELIOSTAT_TEST_PRODUCER";

/// Waits until a condition holds.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WATCHDOG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A control plane in a folder of its own; both go with the value.
pub struct TestDaemon {
    folder: PathBuf,
    daemon: Child,
}

impl TestDaemon {
    /// Starts one; `None`, and a line that says so, where the daemon is not built.
    pub fn new() -> Option<TestDaemon> {
        TestDaemon::with("")
    }

    /// The same with a configuration.
    pub fn with(config: &str) -> Option<TestDaemon> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let program = Path::new(HELIOSTAT).with_file_name("heliostatd");
        if !program.is_file() {
            eprintln!("skipped: heliostatd is not built beside heliostat");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heliostat-snapshot-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), config).unwrap();
        let socket = folder.join("control.sock");
        let daemon = serve(&program, &socket);
        Some(TestDaemon { folder, daemon })
    }

    /// Ends the control plane without mercy and starts another one in its place.
    pub fn restart(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        let socket = self.folder.join("control.sock");
        std::fs::remove_file(&socket).unwrap();
        self.daemon = serve(&Path::new(HELIOSTAT).with_file_name("heliostatd"), &socket);
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// `heliostat snapshot ...` in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HELIOSTAT);
        command.arg("snapshot").args(arguments).current_dir(&self.folder);
        command.env("HELIOSTAT_SOCKET", self.folder.join("control.sock"));
        command
    }

    pub fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a call prints that must succeed.
    pub fn said(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// What a call that must fail says on standard error.
    pub fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// A producer, as `produce` in the test file plays it.
    pub fn producer(&self, role: &str) -> Producer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["produce", "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
        command.env("HELIOSTAT_SOCKET", self.folder.join("control.sock"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut producer = Producer { child, stdout };
        producer.hears("ready");
        producer
    }
}

fn serve(program: &Path, socket: &Path) -> Child {
    let mut command = Command::new(program);
    command.arg("--config").arg(socket.with_file_name("config.toml"));
    command.arg("--socket").arg(socket).stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = command.spawn().unwrap();
    await_that("the control plane serves", || accepts(socket));
    daemon
}

/// Whether a control plane takes connections there: its file is there a moment before it does.
pub fn accepts(socket: &Path) -> bool {
    PacketSocket::connect(socket.to_str().unwrap(), 60_000).is_ok()
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A producer that does what it is told, line by line; killed with the value.
pub struct Producer {
    pub child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Producer {
    /// Tells it one line and waits for its answer.
    pub fn tell(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.hears("did ")
    }

    fn hears(&mut self, mark: &str) -> String {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the producer ended");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Files of a folder, less those of the control plane.
pub fn files(daemon: &TestDaemon) -> Vec<String> {
    let names = std::fs::read_dir(daemon.folder()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_own = |name: &str| name.starts_with("control") || name == "config.toml";
    let mut names: Vec<String> = names.filter(|name| !is_own(name)).collect();
    names.sort();
    names
}
