//! Offers that somebody makes for a connection of somebody else's: whatever such a channel says,
//! the server reads what the connection's owner sent, and answers its owner.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::name::NetAddress;
use heliostat_abi::stream::channel::{direction, ring_offset, slot, slot_offset, SlotState};
use heliostat_base::call;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_posix::net::channel::Slot;
use heliostat_stub_posix::net::socket;
use support::pair::{End, Listener};

const SECRET: &[u8] = b"AUTH the owner's word\r\n";
const EVIL: &[u8] = b"FLUSHALL of the attacker\r\n";

/// Who makes the false offers: a client of the same server, with a channel of its own.
struct Attacker {
    _own: Vec<(End, End)>,
    memory: Arc<SharedMapping>,
    slot: Slot,
    /// Place of the slot in the channel.
    index: u32,
}

impl Attacker {
    fn new(listener: &Listener) -> Self {
        let mut own = Vec::new();
        // Beside its own connection one more slot of the same channel.
        let (channel, slot) = loop {
            own.push((listener.connect(), listener.accept()));
            let newest = socket::at(own[own.len() - 1].0.index()).stream();
            let channel = newest.expect("direct").slot.channel;
            if let Some(slot) = channel.take_slot() {
                break (channel, slot);
            }
        };
        let index = channel.offers().trailing_zeros();
        let memory = support::control().channel(channel.entry.id.index);
        Self { _own: own, memory, slot, index }
    }

    fn offer(&self, victim: NetAddress, server: NetAddress) {
        assert!(self.slot.offer(victim, server, 0));
    }

    fn lane(&self, way: usize) -> usize {
        slot_offset(self.index) + slot::DIRECTION[way]
    }

    /// Says that the ring is begun behind `prefix` bytes of the shadow, and holds bytes, with `flags`.
    fn begin(&self, prefix: u64, flags: u32, state: SlotState) {
        let ring = ring_offset(self.index, 0, support::RING_BYTES);
        for at in (0..support::RING_BYTES as usize - EVIL.len()).step_by(EVIL.len()) {
            self.memory.copy_in(ring + at, EVIL).unwrap();
        }
        let lane = self.lane(0);
        self.memory.atomic_u64(lane + direction::ORIGIN).store(0, SeqCst);
        self.memory.atomic_u64(lane + direction::PREFIX).store(prefix, SeqCst);
        self.memory.atomic_u64(lane + direction::TAIL).store(EVIL.len() as u64, SeqCst);
        self.memory.atomic_u32(lane + direction::FLAGS).store(flags, SeqCst);
        let word = self.memory.atomic_u32(slot_offset(self.index) + slot::STATE);
        word.store(state.in_word(word.load(SeqCst)), SeqCst);
    }

    /// What the server wrote into this channel, if anything.
    fn overheard(&self) -> u64 {
        self.memory.atomic_u64(self.lane(1) + direction::TAIL).load(SeqCst)
    }
}

/// A plain client whose port is known before it connects.
struct Victim {
    fd: i32,
    own: std::net::SocketAddrV4,
}

impl Victim {
    fn new() -> Self {
        // SAFETY: socket takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        let raw = support::pair::loopback(0);
        // SAFETY: `raw` is a live address of its true length.
        assert_eq!(unsafe { libc::bind(fd, (&raw const raw).cast(), 16) }, 0);
        let own = match call::local_address(fd) {
            Some(std::net::SocketAddr::V4(own)) => own,
            other => panic!("bound to {other:?}"),
        };
        Self { fd, own }
    }

    fn connect(self, port: u16) -> TcpStream {
        let raw = support::pair::loopback(port);
        // SAFETY: `raw` is a live address of its true length, and the descriptor ours alone.
        let stream = unsafe {
            assert_eq!(libc::connect(self.fd, (&raw const raw).cast(), 16), 0);
            TcpStream::from_raw_fd(self.fd)
        };
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }
}

/// A connection of a victim that the attacker has put on offer as its own; the server's end.
fn offered(listener: &Listener, attacker: &Attacker) -> (TcpStream, End) {
    let victim = Victim::new();
    let server = NetAddress::new(([127, 0, 0, 1], listener.port()).into());
    attacker.offer(NetAddress::new(victim.own.into()), server);
    let victim = victim.connect(listener.port());
    let server = listener.accept();
    server.set_timeouts(Duration::from_secs(30));
    (victim, server)
}

/// The words of an attacker that wants its bytes taken.
fn words() -> Vec<(u64, u32, SlotState)> {
    let flags = [0, direction::FIN, direction::RESET, direction::SWITCHED];
    let flags = flags.into_iter().chain([direction::SWITCHED | direction::TAKEN_BACK]);
    let prefixes = [0, 5, SECRET.len() as u64, u64::MAX];
    let states = [SlotState::Claimed, SlotState::Started, SlotState::Proven, SlotState::Left];
    let each = flags.flat_map(|flags| prefixes.map(|prefix| (prefix, flags)));
    each.flat_map(|(prefix, flags)| states.map(|state| (prefix, flags, state))).collect()
}

#[test]
fn the_server_reads_the_owner_and_not_who_offers_its_connection() {
    let listener = Listener::new();
    for (prefix, flags, state) in words() {
        let attacker = Attacker::new(&listener);
        let (mut victim, server) = offered(&listener, &attacker);
        attacker.begin(prefix, flags, state);
        victim.write_all(SECRET).unwrap();
        let mut got = [0; 64];
        let what = format!("prefix {prefix}, flags {flags}, {state:?}");
        assert_eq!(server.recv(&mut got, libc::MSG_PEEK), Ok(SECRET.len()), "{what}");
        assert_eq!(server.recv(&mut got, 0), Ok(SECRET.len()), "{what}");
        assert_eq!(&got[..SECRET.len()], SECRET, "{what}");
        assert_eq!(server.send(b"+OK\r\n", 0), Ok(5), "{what}");
        let mut answer = [0; 5];
        victim.read_exact(&mut answer).unwrap();
        assert_eq!((&answer, attacker.overheard()), (b"+OK\r\n", 0), "{what}");
        drop(victim);
        assert_eq!(server.recv(&mut got, 0), Ok(0), "{what}");
    }
}

#[test]
fn a_server_that_speaks_first_speaks_to_the_owner() {
    let listener = Listener::new();
    for (prefix, flags, state) in words() {
        let attacker = Attacker::new(&listener);
        let (mut victim, server) = offered(&listener, &attacker);
        attacker.begin(prefix, flags, state);
        let what = format!("prefix {prefix}, flags {flags}, {state:?}");
        assert_eq!(server.send(b"hello", 0), Ok(5), "{what}");
        let mut greeting = [0; 5];
        victim.read_exact(&mut greeting).unwrap();
        assert_eq!((&greeting, attacker.overheard()), (b"hello", 0), "{what}");
        server.shutdown(libc::SHUT_WR);
        assert_eq!(victim.read(&mut greeting).unwrap(), 0, "{what}");
        victim.write_all(SECRET).unwrap();
        drop(victim);
        assert_eq!(server.recv_all().as_deref(), Ok(SECRET), "{what}");
    }
}

#[test]
fn a_reader_that_waits_hears_the_owner_and_not_the_attackers_end() {
    let listener = Listener::new();
    for (prefix, flags, state) in words() {
        let attacker = Attacker::new(&listener);
        let (mut victim, server) = offered(&listener, &attacker);
        let what = format!("prefix {prefix}, flags {flags}, {state:?}");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut got = [0; 64];
                server.recv(&mut got, 0).map(|count| got[..count].to_vec())
            });
            std::thread::sleep(Duration::from_millis(2));
            attacker.begin(prefix, flags, state);
            std::thread::sleep(Duration::from_millis(2));
            victim.write_all(SECRET).unwrap();
            assert_eq!(reader.join().unwrap().as_deref(), Ok(SECRET), "{what}");
        });
        // How the owner ended is what the server sees, by poll(2) too.
        call::linger_zero(victim.as_raw_fd()).unwrap();
        drop(victim);
        let events = libc::POLLIN | libc::POLLRDHUP;
        let mut fds = [libc::pollfd { fd: server.fd, events, revents: 0 }];
        let polled = heliostat_stub_posix::event::poll::poll(&mut fds, Some(30_000_000_000), None);
        let polled = polled.unwrap_or_else(|| call::poll(&mut fds, 30_000));
        assert_eq!(polled, Ok(1), "{what}");
        assert_eq!(server.recv(&mut [0; 8], 0), Err(libc::ECONNRESET), "{what}");
    }
}

#[test]
fn an_owner_whose_bytes_begin_like_the_secret_loses_none_of_them() {
    let listener = Listener::new();
    for matching in [1, 7, 15] {
        let attacker = Attacker::new(&listener);
        let (mut victim, server) = offered(&listener, &attacker);
        let mut bytes = [0; 15];
        let at = slot_offset(attacker.index) + slot::SECRET;
        attacker.memory.copy_out(at, &mut bytes).unwrap();
        attacker.begin(4, 0, SlotState::Started);
        victim.write_all(&[b"four", &bytes[..matching]].concat()).unwrap();
        let mut got = [0; 32];
        let wanted = &mut got[..4 + matching];
        assert_eq!(server.recv(wanted, libc::MSG_WAITALL), Ok(4 + matching));
        assert_eq!(wanted[4..], bytes[..matching]);
        drop(victim);
        assert_eq!(server.recv(&mut got, 0), Ok(0));
    }
}
