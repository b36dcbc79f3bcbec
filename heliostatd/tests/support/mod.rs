//! A daemon of its own for each test, and a client that speaks the protocol as a stub does.

#![allow(dead_code)] // each test file uses its part

pub mod areas;
pub mod beside;
pub mod callers;
pub mod cluster;
pub mod delegated;
pub mod ends;
pub mod faults;
pub mod files;
pub mod filtered;
pub mod fuse;
pub mod histories;
pub mod liar;
pub mod lockers;
pub mod logs;
pub mod member;
pub mod networks;
pub mod operations;
pub mod payloads;
pub mod programs;
pub mod recorded;
pub mod recorded_through;
pub mod registry;
pub mod spreaders;
pub mod stores;
pub mod unit;

use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::node;
use heliostat_abi::session::record::{Bound, ChannelEntry, Reply, Request, REPLY_BYTES};
use heliostat_abi::session::report;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::{fd::OwnedFd, packet::PacketSocket, sys::Errno};
use rustix::fs::statfs;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;

/// Longest wait for something that takes milliseconds; only a hang reaches it.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WATCHDOG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Where folders are made: in containers the usual place is on overlay, of which nothing is cached.
pub fn place() -> PathBuf {
    let usual = std::env::temp_dir();
    let is_overlay = statfs(&usual).is_ok_and(|found| found.f_type == OVERLAY);
    if is_overlay {
        PathBuf::from("/dev/shm")
    } else {
        usual
    }
}

/// Source: linux/magic.h.
const OVERLAY: i64 = 0x794c_7630;
pub const TMPFS: i64 = 0x0102_1994;

/// Held for writing while a program is started.
pub static STARTS: RwLock<()> = RwLock::new(());

/// Keeps other tests from starting a daemon. Who starts a process lends it every descriptor until it
/// is another program: what is closed here meanwhile is open all the same, with its locks and the
/// right to write. Whoever has this starts nothing and does not ask for it again.
pub fn no_starts() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Writes a file that nobody has open for writing afterwards.
pub fn write_file(path: &Path, bytes: &[u8]) {
    let _guard = no_starts();
    std::fs::write(path, bytes).unwrap();
}

/// A daemon in a folder of its own; killed with the value.
pub struct Daemon {
    folder: PathBuf,
    child: Child,
}

impl Daemon {
    /// With the default configuration.
    pub fn start() -> Daemon {
        Daemon::with("", &[])
    }

    /// With a configuration and further arguments.
    pub fn with(config: &str, arguments: &[&str]) -> Daemon {
        Daemon::made(config, arguments, |_| ())
    }

    /// With no more rights and descriptors than the unit file gives it, where this may be had.
    pub fn as_unit(config: &str) -> Daemon {
        Daemon::made(config, &[], unit::confine)
    }

    /// Whose process does something first, before it becomes the daemon: system calls only.
    pub fn beneath(
        config: &str,
        first: impl Fn() -> std::io::Result<()> + Clone + Send + Sync + 'static,
    ) -> Daemon {
        Daemon::made(config, &[], |command| {
            // SAFETY: what runs in the child only makes system calls, as every caller promises.
            unsafe { std::os::unix::process::CommandExt::pre_exec(command, first.clone()) };
        })
    }

    fn made(config: &str, arguments: &[&str], confine: impl Fn(&mut Command)) -> Daemon {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heliostatd-test-{}-{number}", std::process::id());
        let folder = place().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), config).unwrap();
        let child = spawn(&folder, arguments, confine);
        let daemon = Daemon { folder, child };
        daemon.await_service();
        daemon
    }

    /// Ends this daemon without mercy.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends this daemon without mercy and starts another in its place.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.folder, &[], |_| ());
        self.await_service();
    }

    /// Until it takes connections; the one that shows it is gone before tests count any.
    fn await_service(&self) {
        let mut trial = None;
        await_that("the socket accepts", || {
            trial = self.try_connect().ok();
            trial.is_some()
        });
        let mut trial = Client { socket: trial.unwrap(), sequence: 0 };
        trial.socket.send(&[], &[]).unwrap();
        assert!(trial.is_ended(), "an empty message ends a connection");
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Processor time that it has used, in clock ticks of 10 ms.
    #[allow(dead_code)]
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn try_connect(&self) -> Result<PacketSocket, Errno> {
        PacketSocket::connect(self.socket().to_str().unwrap(), 60_000)
    }

    /// A connection that has not greeted.
    pub fn visit(&self) -> Client {
        Client { socket: self.try_connect().unwrap(), sequence: 0 }
    }

    /// A connection that has greeted.
    pub fn session(&self) -> (Client, Welcome) {
        let mut client = self.visit();
        let welcome = client.hello();
        (client, welcome)
    }

    /// What `heliostat status --json` would show.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.visit().text(&Request::Status)).unwrap()
    }

    /// Descriptors that the daemon has open, once connections on their way out are gone.
    pub fn descriptors(&self) -> usize {
        let count = || std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count();
        let at_rest = || self.is_at_rest().then(count);
        let mut found = None;
        await_that("the daemon rests", || {
            let first = at_rest();
            std::thread::sleep(Duration::from_millis(20));
            found = at_rest().filter(|again| first == Some(*again));
            found.is_some()
        });
        found.unwrap()
    }

    /// Whether all its threads sleep. One that is in the middle of something on a busy machine does
    /// not, however long it has not run.
    fn is_at_rest(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")));
        let is_asleep =
            |stat: String| stat.rsplit_once(") ").is_some_and(|it| it.1.starts_with('S'));
        stats.into_iter().all(|stat| stat.is_ok_and(is_asleep))
    }

    /// Whether the daemon has ended by itself, and how.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The daemon under test; another build's by HELIOSTATD.
fn program() -> PathBuf {
    let other = std::env::var_os("HELIOSTATD").map(PathBuf::from);
    other.unwrap_or_else(|| env!("CARGO_BIN_EXE_heliostatd").into())
}

fn spawn(folder: &Path, arguments: &[&str], confine: impl Fn(&mut Command)) -> Child {
    let _guard = STARTS.write();
    let mut command = networks::command(&program(), folder);
    confine(&mut command);
    if filtered::is_asked_for() {
        filtered::refuse(&mut command);
    }
    command
        .arg("--socket")
        .arg(folder.join("control.sock"))
        .arg("--config")
        .arg(folder.join("config.toml"))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(logs::of(folder))
        .spawn()
        .unwrap()
}

/// A refusal for no limit.
pub fn refused(code: Code) -> Reply {
    Reply::Refused { code, limit: 0, bound: Bound::NONE }
}

/// A refusal for a limit.
pub fn full(thing: Thing, side: Side, limit: u64) -> Reply {
    Reply::Refused { code: Code::Full, limit, bound: Bound::new(thing, side) }
}

/// What a greeting brings.
pub struct Welcome {
    pub session: ObjectId,
    pub boot: u64,
    pub node: SharedMapping,
    pub node_fd: OwnedFd,
    pub report: SharedMapping,
}

/// One connection.
pub struct Client {
    pub socket: PacketSocket,
    sequence: u32,
}

impl Client {
    /// Connects to a daemon by its path.
    pub fn connect(path: &str) -> Client {
        Client { socket: PacketSocket::connect(path, 60_000).unwrap(), sequence: 0 }
    }

    /// On a connection that was just made.
    pub fn on(socket: PacketSocket) -> Client {
        Client { socket, sequence: 0 }
    }

    /// Asks with descriptors.
    pub fn ask_with(&mut self, request: &Request, fds: &[RawFd]) -> (Reply, Vec<OwnedFd>) {
        self.sequence += 1;
        self.socket.send(&request.encode(self.sequence), fds).unwrap();
        let (reply, sequence, fds) = self.receive().unwrap();
        assert_eq!(sequence, self.sequence);
        (reply, fds)
    }

    /// Asks.
    pub fn ask(&mut self, request: &Request) -> (Reply, Vec<OwnedFd>) {
        self.ask_with(request, &[])
    }

    pub fn receive(&mut self) -> Result<(Reply, u32, Vec<OwnedFd>), Errno> {
        let mut record = [0; REPLY_BYTES];
        let (length, fds) = self.socket.receive(&mut record)?;
        let (reply, sequence) = Reply::decode(&record[..length]).unwrap();
        Ok((reply, sequence, fds))
    }

    pub fn hello(&mut self) -> Welcome {
        let (reply, mut fds) = self.ask(&Request::Hello { program: "test".into() });
        let Reply::Welcome { session, boot } = reply else { panic!("{reply:?}") };
        assert_eq!(fds.len(), 2);
        let report_fd = fds.pop().unwrap();
        let node_fd = fds.pop().unwrap();
        let access = Access::ReadWrite;
        Welcome {
            session,
            boot,
            node: SharedMapping::from_fd(node_fd.as_raw_fd(), node::BYTES, Access::Read).unwrap(),
            node_fd,
            report: SharedMapping::from_fd(report_fd.as_raw_fd(), report::BYTES, access).unwrap(),
        }
    }

    /// Registers a listening socket.
    pub fn listen(&mut self, socket: &impl AsRawFd) -> (ObjectId, NetAddress) {
        match self.ask_with(&Request::Listen, &[socket.as_raw_fd()]).0 {
            Reply::Listening { port, address } => (port, address),
            reply => panic!("{reply:?}"),
        }
    }

    /// Opens a channel.
    pub fn open(&mut self, address: NetAddress) -> Result<(ChannelEntry, OwnedFd), (Code, u64)> {
        match self.ask(&Request::Open { address }) {
            (Reply::Channels { entries, more: false, .. }, mut fds) => {
                assert_eq!((entries.len(), fds.len()), (1, 1));
                Ok((entries[0], fds.pop().unwrap()))
            }
            (Reply::Refused { code, limit, .. }, _) => Err((code, limit)),
            (reply, _) => panic!("{reply:?}"),
        }
    }

    /// One batch of new channels.
    pub fn attach(&mut self, port: ObjectId) -> Result<Vec<(ChannelEntry, OwnedFd)>, Code> {
        match self.ask(&Request::Attach { port }) {
            (Reply::Channels { entries, .. }, fds) => {
                assert_eq!(entries.len(), fds.len());
                Ok(entries.into_iter().zip(fds).collect())
            }
            (Reply::Refused { code, .. }, _) => Err(code),
            (reply, _) => panic!("{reply:?}"),
        }
    }

    pub fn text(&mut self, request: &Request) -> String {
        match self.ask(request) {
            (Reply::Text { bytes }, fds) => {
                let path = format!("/proc/self/fd/{}", fds[0].as_raw_fd());
                let text = std::fs::read_to_string(path).unwrap();
                assert_eq!(text.len() as u64, bytes);
                text
            }
            (reply, _) => panic!("{reply:?}"),
        }
    }

    /// The code of a refusal.
    pub fn refusal(&mut self, request: &Request, fds: &[RawFd]) -> Code {
        match self.ask_with(request, fds).0 {
            Reply::Refused { code, .. } => code,
            reply => panic!("{reply:?}"),
        }
    }

    /// Whether the daemon has ended this connection.
    pub fn is_ended(&mut self) -> bool {
        matches!(self.receive(), Err(Errno(number)) if number == libc::ECONNRESET)
    }
}
