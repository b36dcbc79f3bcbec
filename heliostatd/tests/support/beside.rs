//! Another user and root, who work all the time while somebody attacks, and check every answer.

use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use heliostat_abi::code::Unmapped;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::snapshot::memory::{Shape, PINS_BYTES};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_base::mapping::{SharedMapping, Writers};

use super::files::{lease, BYTES};
use super::{await_that, write_file, Client, Daemon};

/// Users that own nothing on any machine: two that attack, and one that works beside them.
pub const ATTACKERS: [u32; 2] = [65_531, 65_532];
pub const NEIGHBOUR: u32 = 65_533;

/// Makes this thread another user's, for good; false where it may not.
pub fn become_user(uid: u32) -> bool {
    // SAFETY: no pointer; made directly, the call is about this thread alone.
    unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0 }
}

/// Does something as another user, in a thread of its own; none where it may not.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| become_user(uid).then(work));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether this test may become other users.
pub fn may_become_others() -> bool {
    let may = as_user(NEIGHBOUR, || ()).is_some();
    if !may {
        eprintln!("skipped: only root becomes another user");
    }
    may
}

/// Whether root's control plane, which has the rights that this process has, may take leases on
/// other users' files: not in a default container, which has no CAP_LEASE (capabilities(7)).
pub fn may_lease_others_files() -> bool {
    const CAP_LEASE: u32 = 28;
    // Of the first thread, which never becomes another user.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() & 1 << CAP_LEASE != 0
}

/// The neighbours at work.
pub struct Beside {
    goes_on: Arc<AtomicBool>,
    workers: Vec<(Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Beside {
    /// Starts them; returns once each has done everything once.
    pub fn start(daemon: &Daemon) -> Beside {
        let path = daemon.folder().join("neighbour");
        write_file(&path, &[7; BYTES]);
        chown(&path, Some(NEIGHBOUR), Some(NEIGHBOUR)).unwrap();
        let socket = daemon.socket().to_str().unwrap().to_owned();
        let goes_on = Arc::new(AtomicBool::new(true));
        let worker = |work: Box<dyn Fn() + Send>| {
            let (turns, goes_on) = (Arc::new(AtomicU64::new(0)), goes_on.clone());
            let counted = turns.clone();
            let thread = std::thread::spawn(move || {
                while goes_on.load(Ordering::Relaxed) {
                    work();
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            (turns, thread)
        };
        let (ordinary, root) = (Neighbour { socket: socket.clone(), path }, socket);
        let workers = vec![
            worker(Box::new(move || as_user(NEIGHBOUR, || ordinary.work()).unwrap())),
            worker(Box::new(move || look(&root))),
        ];
        let beside = Beside { goes_on, workers };
        beside.await_turn();
        beside
    }

    /// Until each of them has begun and ended a turn after now.
    pub fn await_turn(&self) {
        for (turns, thread) in &self.workers {
            let before = turns.load(Ordering::Relaxed);
            await_that("a neighbour is served", || {
                thread.is_finished() || turns.load(Ordering::Relaxed) >= before + 2
            });
        }
    }

    /// Ends them; what any of them met fails here. Root ends the control plane at last.
    pub fn finish(self, daemon: &Daemon) {
        self.await_turn();
        self.goes_on.store(false, Ordering::Relaxed);
        for (_, thread) in self.workers {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        assert_eq!(daemon.visit().ask(&Request::Stop).0, Reply::Done);
    }
}

/// Root looks at everything.
fn look(socket: &str) {
    let text = Client::connect(socket).text(&Request::Status);
    assert!(text.contains("\"sessions\""));
}

/// An ordinary user's program.
struct Neighbour {
    socket: String,
    path: PathBuf,
}

impl Neighbour {
    /// Uses every service once.
    fn work(&self) {
        let mut client = Client::connect(&self.socket);
        client.hello();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, address) = client.listen(&listener);
        client.open(address).unwrap();
        assert_eq!(client.attach(port).unwrap().len(), 1);
        match lease(&mut client, &File::open(&self.path).unwrap()) {
            Ok((id, ..)) => {
                assert_eq!(client.ask(&Request::EndLease { lease: id }).0, Reply::Done);
            }
            Err(why) => assert_eq!((why, may_lease_others_files()), (Unmapped::Owner, false)),
        }
        publish_and_attach(&mut client);
        assert!(client.text(&Request::Status).contains("\"sessions\""));
        await_close(&mut client);
    }
}

fn publish_and_attach(client: &mut Client) {
    let shape = Shape::new(1, 5000, 0, 2).unwrap();
    let own = Writers::CreatorOnly;
    let table = SharedMapping::create_for(c"table", shape.table_bytes(), own).unwrap();
    let pool = SharedMapping::create_for(c"pool", shape.pool_bytes(), own).unwrap();
    table.1.copy_in(0, &shape.encode()).unwrap();
    // A name of each turn's own: in a storm the control plane may not have seen yet that the one before
    // has ended.
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let name = RegionName::parse(&format!("beside/{turn}")).unwrap();
    let fds = [table.0.as_raw_fd(), pool.0.as_raw_fd()];
    let published = client.ask_with(&Request::Publish { name: name.clone() }, &fds).0;
    assert!(matches!(published, Reply::Published { .. }), "{published:?}");
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let attach = Request::AttachRegion { name, owner: OWN_USER };
    let attached = client.ask_with(&attach, &[page.as_raw_fd()]).0;
    assert!(matches!(attached, Reply::Region { .. }), "{attached:?}");
}

/// What it shows is closed there, too: its other end is told.
fn await_close(client: &mut Client) {
    let (mut reader, writer) = UnixStream::pair().unwrap();
    assert_eq!(lease(client, &writer).err(), Some(Unmapped::NotRegular));
    drop(writer);
    let mut ends = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut ends, Some(&patience)), Ok(1), "it was not closed");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}
