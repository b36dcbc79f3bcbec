//! The program's side of a loop.

use std::io::{IoSlice, IoSliceMut, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use heliostat_abi::name::ObjectId;
use heliostat_abi::stream::channel::{self as layout, slot, SlotState};
use heliostat_abi::stream::delegated::Hand;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::packet;
use heliostat_ring::stream::{Lane, WriteCache};
use heliostat_server_network::{NetworkLoops, NewChannel, Order, Settings};
use heliostat_service_grant::{Holder, Shares};
use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};

pub const SLOTS: u32 = 4;
pub const RING: u32 = 16384;
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// A program's end of a channel.
pub struct Program {
    pub ring: u32,
    pub loops: Arc<Mutex<NetworkLoops>>,
    pub name: u64,
    pub memory: Arc<SharedMapping>,
    pub link: OwnedFd,
    pub id: ObjectId,
}

/// One connection of it.
pub struct Carried {
    pub slot: u32,
    pub incoming: Lane,
    pub outgoing: Lane,
    pub cache: WriteCache,
    pub shadow: UnixStream,
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WATCHDOG, "{what}: never");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes a channel, and gives the loop its end.
fn channel(
    loops: &mut NetworkLoops,
    (name, id): (u64, ObjectId),
    holder: Holder,
    ring_bytes: u32,
    close: Box<dyn Fn(OwnedFd) + Send>,
) -> (Arc<SharedMapping>, OwnedFd) {
    let (_, memory) = SharedMapping::create(c"channel", layout::bytes(SLOTS, ring_bytes)).unwrap();
    let memory = Arc::new(memory);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, link) = socketpair(family, kind, flags, None).unwrap();
    let (session, slots, given) = (id, SLOTS, memory.clone());
    let new = NewChannel { id, session, holder, memory: given, slots, ring_bytes, link, close };
    loops.order(name, Order::Carry(new));
    (memory, ours)
}

impl Program {
    pub fn start(connections_max: u64) -> Program {
        Program::start_with(connections_max, RING)
    }

    pub fn start_with(connections_max: u64, ring: u32) -> Program {
        Program::start_closed_by(connections_max, ring, Box::new(drop::<OwnedFd>))
    }

    pub fn start_closed_by(
        connections_max: u64,
        ring: u32,
        close: Box<dyn Fn(OwnedFd) + Send>,
    ) -> Program {
        let loops = Program::loops(connections_max);
        Program::start_in(&loops, Holder::user(1), ring, close)
    }

    /// Loops for several programs.
    pub fn loops(connections_max: u64) -> Arc<Mutex<NetworkLoops>> {
        let shares = Shares::whole(connections_max);
        let settings = Settings { loops: 1, cores: Vec::new(), shares };
        Arc::new(Mutex::new(NetworkLoops::new(settings)))
    }

    /// A program of this owner's.
    pub fn start_in(
        loops: &Arc<Mutex<NetworkLoops>>,
        owner: Holder,
        ring: u32,
        close: Box<dyn Fn(OwnedFd) + Send>,
    ) -> Program {
        let loops = loops.clone();
        let name = loops.lock().unwrap().of(owner).unwrap();
        let id = ObjectId { index: owner.uid, generation: 1 };
        let (memory, link) = channel(&mut loops.lock().unwrap(), (name, id), owner, ring, close);
        Program { ring, loops, name, memory, link, id }
    }

    /// Another user's program, with loops of the same service.
    pub fn of_user(&self, uid: u32) -> Program {
        let close = Box::new(drop::<OwnedFd>);
        Program::start_in(&self.loops, Holder::user(uid), self.ring, close)
    }

    pub fn lane(&self, slot: u32, direction: usize) -> Lane {
        let words = layout::slot_offset(slot) + slot::DIRECTION[direction];
        let data = layout::ring_offset(slot, direction, self.ring);
        Lane::new(&self.memory, words, data, self.ring).unwrap()
    }

    pub fn word(&self, slot: u32, offset: usize) -> &std::sync::atomic::AtomicU32 {
        self.memory.atomic_u32(layout::slot_offset(slot) + offset)
    }

    /// Sets a slot up and hands a socket over on it.
    pub fn hand(&self, slot: u32, socket: i32, shadow: i32) {
        let word = 7 << 8 | SlotState::Proven as u32;
        self.word(slot, slot::STATE).store(word, Release);
        packet::send(
            self.link.as_raw_fd(),
            &Hand { slot, generation: 7 }.encode(),
            &[socket, shadow],
        )
        .unwrap();
    }

    /// As `carry`; its peer has sent a byte before, or sends nothing.
    pub fn carry_to(&self, slot: u32, has_sent: bool) -> (Carried, TcpStream) {
        let (carried, peer, _) = self.carry_of(slot, has_sent);
        (carried, peer)
    }

    pub fn carry(&self, slot: u32) -> (Carried, TcpStream) {
        let (carried, peer, _) = self.carry_kept(slot);
        (carried, peer)
    }

    /// As `carry`, with the program's own descriptor of the socket.
    pub fn carry_kept(&self, slot: u32) -> (Carried, TcpStream, TcpStream) {
        self.carry_of(slot, false)
    }

    /// As `carry`, with the loop's end of the shadow, which the program has kept.
    pub fn carry_shown(&self, slot: u32) -> (Carried, TcpStream, UnixStream) {
        let (carried, peer, _, far) = self.carry_all(slot, false);
        (carried, peer, far)
    }

    pub fn carry_of(&self, slot: u32, has_sent: bool) -> (Carried, TcpStream, TcpStream) {
        let (carried, peer, socket, _) = self.carry_all(slot, has_sent);
        (carried, peer, socket)
    }

    pub fn carry_all(
        &self,
        slot: u32,
        has_sent: bool,
    ) -> (Carried, TcpStream, TcpStream, UnixStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        let socket = listener.accept().unwrap().0;
        if has_sent {
            (&peer).write_all(&[1]).unwrap();
        }
        let (incoming, outgoing) = (self.lane(slot, 1), self.lane(slot, 0));
        incoming.reset(0);
        outgoing.reset(0);
        self.word(slot, slot::CLOSED).store(0, Release);
        let (shadow, far) = UnixStream::pair().unwrap();
        shadow.set_read_timeout(Some(WATCHDOG)).unwrap();
        self.hand(slot, socket.as_raw_fd(), far.as_raw_fd());
        let carried = Carried { slot, incoming, outgoing, cache: WriteCache::new(), shadow };
        (carried, peer, socket, far)
    }

    pub fn count(&self, which: &str) -> u64 {
        let loops = self.loops.lock().unwrap();
        let own = loops.each().iter().find(|state| state.name == self.name);
        let counts = &own.unwrap().counts;
        match which {
            "refused" => counts.refused.load(Relaxed),
            "sleeps" => counts.sleeps.load(Relaxed),
            "corrupt" => counts.corrupt.load(Relaxed),
            _ => counts.connections.load(Relaxed),
        }
    }
}

impl Carried {
    pub fn send(&mut self, bytes: &[u8]) {
        let mut sent = 0;
        wait_until("room", || {
            let part = [IoSlice::new(&bytes[sent..])];
            sent += self.outgoing.write(&part, &mut self.cache).unwrap();
            if self.outgoing.take_sleeping_reader() {
                self.outgoing.count_bell();
                self.shadow.write_all(&[0]).unwrap();
            }
            sent == bytes.len()
        });
    }

    pub fn receive(&self, count: usize) -> Vec<u8> {
        let (mut bytes, mut seen) = (vec![0; count], 0);
        wait_until("bytes", || {
            let part = &mut [IoSliceMut::new(&mut bytes[seen..])];
            let done = self.incoming.read(part, false).unwrap();
            if done.made_room && self.incoming.take_sleeping_writer() {
                self.outgoing.count_bell();
                (&self.shadow).write_all(&[0]).unwrap();
            }
            seen += done.bytes;
            seen == count
        });
        bytes
    }
}

pub fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 % 251) as u8).collect()
}
