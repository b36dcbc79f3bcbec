//! A control plane of a few lines in this very process, and both ends of streams beside it.
//!
//! It grants everything, keeps every channel's memory for the test to look into, and can be told
//! to refuse or to fall silent. What it leaves out (rights, limits, other users) is tested in
//! `heliostatd`.
#![allow(dead_code)] // each test binary uses its part

pub mod child;
#[path = "../../../../client/tests/support/packet.rs"]
pub mod packet;
pub mod pair;
pub mod set;

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use heliostat_abi::code::Code;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::node::{self, State};
use heliostat_abi::session::record::{Bound, ChannelEntry, Reply, Request};
use heliostat_abi::session::report;
use heliostat_abi::stream::channel::{self, MAGIC};
use heliostat_abi::VERSION;
use heliostat_base::fd::OwnedFd;
use heliostat_base::heap::Heap;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::process;
use heliostat_client::session;

/// Relays are forked beside threads that may hold libc's locks, as in programs.
#[global_allocator]
static HEAP: Heap = Heap;

/// Smallest rings, so that full ones are common.
pub const RING_BYTES: u32 = heliostat_abi::limits::RING_BYTES_MIN;
const SLOTS: u32 = 4;

/// Longest wait for something that takes milliseconds; only a hang reaches it.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// One channel as the control plane made it.
pub struct ChannelMemory {
    fd: OwnedFd,
    /// The bytes both ends map.
    pub memory: Arc<SharedMapping>,
    entry: ChannelEntry,
    port: u32,
    attached: bool,
}

/// The control plane's state.
pub struct Control {
    node: (OwnedFd, SharedMapping),
    report: (OwnedFd, SharedMapping),
    ports: Mutex<HashMap<NetAddress, u32>>,
    ports_made: AtomicU32,
    channels: Mutex<Vec<ChannelMemory>>,
    /// Requests are read and not answered.
    pub is_silent: AtomicBool,
    /// Every `Open` is refused with this code.
    pub refusal: Mutex<Option<Code>>,
    /// Requests seen.
    pub asked: Mutex<Vec<Request>>,
}

/// The only control plane of this test binary, started now if it is not yet.
pub fn control() -> &'static Control {
    static CONTROL: OnceLock<&'static Control> = OnceLock::new();
    CONTROL.get_or_init(|| {
        let control: &'static Control = Box::leak(Box::new(Control::new()));
        let name = format!("heliostat-stub-test-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name).display().to_string();
        remove_at_exit(&path);
        let listener = packet::listen(&path);
        heliostat_stub_posix::process::adopt();
        session::configure(path, "stub-test".into());
        std::thread::spawn(move || loop {
            let session = packet::accept(&listener);
            std::thread::spawn(move || control.serve(session));
        });
        control
    })
}

/// Sessions may begin until the last test is over, so the socket's file stays until then.
fn remove_at_exit(path: &str) {
    static PATH: OnceLock<String> = OnceLock::new();
    extern "C" fn remove() {
        let _ = PATH.get().map(std::fs::remove_file);
    }
    if PATH.set(path.to_owned()).is_ok() {
        // SAFETY: the function lives as long as the process, and does not unwind.
        assert_eq!(unsafe { libc::atexit(remove) }, 0);
    }
}

/// Waits for a session. On a machine that holds this control plane up for longer than its deadline
/// the stub takes it for lost, and asks again only after a pause.
pub fn until_standing() {
    let ends = Instant::now() + WATCHDOG;
    while session::standing().is_err() {
        assert!(Instant::now() < ends, "no session");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Control {
    fn new() -> Self {
        let node = SharedMapping::create(c"node", node::BYTES).unwrap();
        node.1.atomic_u32(0).store(node::MAGIC, Relaxed);
        node.1.atomic_u32(4).store(u32::from(VERSION), Relaxed);
        node.1.atomic_u32(node::session_word(0)).store(node::word(1, State::Active), Relaxed);
        Self {
            node,
            report: SharedMapping::create(c"report", report::BYTES).unwrap(),
            ports: Mutex::default(),
            ports_made: AtomicU32::new(0),
            channels: Mutex::default(),
            is_silent: AtomicBool::new(false),
            refusal: Mutex::new(None),
            asked: Mutex::default(),
        }
    }

    /// A counter of the report page, as the stub has left it.
    pub fn counter(&self, counter: report::Counter) -> u64 {
        self.report.1.atomic_u64(report::counter(counter)).load(SeqCst)
    }

    /// The memory of the newest channel.
    pub fn newest_channel(&self) -> Arc<SharedMapping> {
        self.channels.lock().unwrap().last().expect("a channel was opened").memory.clone()
    }

    /// The memory of the channel with this index.
    pub fn channel(&self, index: u32) -> Arc<SharedMapping> {
        self.channels.lock().unwrap()[index as usize].memory.clone()
    }

    /// Ends the grant of every channel made so far.
    pub fn revoke_all(&self) {
        for channel in self.channels.lock().unwrap().iter() {
            let word = self.node.1.atomic_u32(node::channel_word(channel.entry.id.index));
            word.store(node::word(1, State::Revoked), SeqCst);
        }
    }

    fn serve(&self, session: OwnedFd) {
        while let Some((record, fds)) = packet::receive(session.as_raw_fd()) {
            let (request, sequence) = Request::decode(&record).expect("the stub speaks properly");
            self.asked.lock().unwrap().push(request.clone());
            if self.is_silent.load(SeqCst) {
                continue;
            }
            let (reply, with) = self.answer(&request, &fds);
            packet::send(session.as_raw_fd(), &reply.encode(sequence), &with);
        }
    }

    fn answer(&self, request: &Request, fds: &[OwnedFd]) -> (Reply, Vec<RawFd>) {
        match request {
            Request::Hello { .. } => {
                let welcome = Reply::Welcome { session: id(0), boot: 7 };
                (welcome, vec![self.node.0.as_raw_fd(), self.report.0.as_raw_fd()])
            }
            Request::Listen => {
                let local = heliostat_base::call::local_address(fds[0].as_raw_fd()).unwrap();
                let address = NetAddress::new(local);
                let mut ports = self.ports.lock().unwrap();
                let port = *ports.entry(address).or_insert_with(|| self.next_port());
                self.node.1.atomic_u32(node::REGISTRY).fetch_add(1, SeqCst);
                (Reply::Listening { port: id(port), address }, vec![])
            }
            Request::Unlisten { port } => self.unlisten(port.index),
            Request::Open { address } => self.open(*address),
            Request::Attach { port } => self.attach(port.index),
            _ => (Reply::Done, vec![]),
        }
    }

    fn next_port(&self) -> u32 {
        self.ports_made.fetch_add(1, SeqCst)
    }

    /// The address and its channels are gone, as in the control plane proper: whoever listens
    /// there next is another.
    fn unlisten(&self, port: u32) -> (Reply, Vec<RawFd>) {
        self.ports.lock().unwrap().retain(|_, known| *known != port);
        for gone in self.channels.lock().unwrap().iter().filter(|channel| channel.port == port) {
            let word = self.node.1.atomic_u32(node::channel_word(gone.entry.id.index));
            word.store(node::word(2, State::Free), SeqCst);
        }
        self.node.1.atomic_u32(node::REGISTRY).fetch_add(1, SeqCst);
        (Reply::Done, vec![])
    }

    fn open(&self, address: NetAddress) -> (Reply, Vec<RawFd>) {
        let known = self.ports.lock().unwrap().get(&address).copied();
        let code = self.refusal.lock().unwrap().or(known.is_none().then_some(Code::NotFound));
        let (Some(port), None) = (known, code) else {
            return (
                Reply::Refused {
                    code: code.unwrap_or(Code::NotFound),
                    limit: 0,
                    bound: Bound::NONE,
                },
                vec![],
            );
        };
        let mut channels = self.channels.lock().unwrap();
        let index = channels.len() as u32;
        let bytes = channel::bytes(SLOTS, RING_BYTES);
        let (fd, memory) = SharedMapping::create(c"channel", bytes).unwrap();
        memory.atomic_u32(0).store(MAGIC, Relaxed);
        memory.atomic_u32(4).store(channel::VERSION, Relaxed);
        let entry = ChannelEntry {
            id: id(index),
            client: id(0),
            peer_uid: process::effective_uid(),
            slots: SLOTS,
            ring_bytes: RING_BYTES,
        };
        let raw = fd.as_raw_fd();
        let memory = Arc::new(memory);
        channels.push(ChannelMemory { fd, memory, entry, port, attached: false });
        let word = self.node.1.atomic_u32(node::channel_word(index));
        word.store(node::word(1, State::Active), SeqCst);
        self.node.1.atomic_u32(node::port_word(port)).fetch_add(1, SeqCst);
        (Reply::Channels { port: id(port), entries: vec![entry], more: false }, vec![raw])
    }

    fn attach(&self, port: u32) -> (Reply, Vec<RawFd>) {
        let mut channels = self.channels.lock().unwrap();
        let new: Vec<_> =
            channels.iter_mut().filter(|c| c.port == port && !c.attached).take(16).collect();
        let entries = new.iter().map(|channel| channel.entry).collect();
        let fds = new.iter().map(|channel| channel.fd.as_raw_fd()).collect();
        new.into_iter().for_each(|channel| channel.attached = true);
        (Reply::Channels { port: id(port), entries, more: false }, fds)
    }
}

fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}
