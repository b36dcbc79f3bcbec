//! A peer that scribbles over the whole channel: an honest end sees errors, never a hang.
//!
//! Rounds are seeded; `HELIOSTAT_SEED=n` replays one. In each round a thread writes random words
//! all over the channel's memory (positions, flags, sleep words, locks, slot states, offers) and
//! random bytes on the shadow, while the honest end receives, sends, polls and closes. A watchdog
//! names the call that does not come back.

mod support;

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Mutex;
use std::time::Duration;

use heliostat_abi::stream::channel::{self, direction, slot};
use heliostat_base::call;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_posix::event::{epoll, poll};
use heliostat_stub_posix::net::{demote, side_lock};
use support::pair::{direct, End};

const ROUNDS: u64 = 60;
const CALLS_PER_ROUND: u32 = 60;
/// No call of the honest end may take this long: every wait below has a limit of 10 ms, and what
/// the stub adds by itself is bounded by the deadlines of `abi::limits`.
const PATIENCE: Duration = Duration::from_secs(30);

static BEATS: AtomicU64 = AtomicU64::new(0);
static DOING: Mutex<String> = Mutex::new(String::new());

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn watch() {
    std::thread::spawn(|| loop {
        let before = BEATS.load(SeqCst);
        std::thread::sleep(PATIENCE);
        if BEATS.load(SeqCst) == before {
            eprintln!("hung in {}", DOING.lock().unwrap());
            std::process::abort();
        }
    });
}

/// Words that look like what belongs there as often as not.
fn word(dice: &mut Dice) -> u64 {
    match dice.roll(6) {
        0 => 0,
        1 => dice.roll(32),
        2 => dice.roll(1 << 15),
        3 => 1 << dice.roll(64),
        4 => u64::MAX - dice.roll(1 << 15),
        _ => dice.roll(u64::MAX),
    }
}

/// One word somewhere: mostly in the slot headers, where the protocol lives.
fn scribble(dice: &mut Dice, memory: &SharedMapping) {
    let words = [
        direction::TAIL,
        direction::ORIGIN,
        direction::FLAGS,
        direction::BELLS,
        direction::READER_ASLEEP,
        direction::WANT_NATIVE,
        direction::HEAD,
        direction::WRITER_ASLEEP,
        direction::DRAINED,
    ];
    let base = channel::slot_offset(dice.roll(2) as u32);
    let at = match dice.roll(8) {
        0 => channel::OFFERS,
        1 => base + dice.roll(channel::SLOT_STRIDE as u64 / 4) as usize * 4,
        2 => dice.roll(memory.len() as u64 / 4) as usize * 4,
        _ => {
            let lane = slot::DIRECTION[dice.roll(2) as usize];
            base + lane + words[dice.roll(words.len() as u64) as usize]
        }
    };
    let value = word(dice);
    match at % 8 == 0 && dice.roll(2) == 0 {
        true => memory.atomic_u64(at).store(value, Relaxed),
        false => memory.atomic_u32(at).store(value as u32, Relaxed),
    }
}

fn attack(seed: u64, memory: &SharedMapping, shadow: i32, stop: &AtomicBool) {
    let mut dice = Dice(seed);
    // Slow scribblers break the stream late, and only one of its words for most of the time.
    let pause_us = [0, 20, 500][dice.roll(3) as usize];
    while !stop.load(Relaxed) {
        scribble(&mut dice, memory);
        if pause_us > 0 {
            std::thread::sleep(Duration::from_micros(dice.roll(pause_us)));
        }
        match dice.roll(64) {
            0 => drop(call::send(shadow, &[0; 7], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)),
            1 => drop(call::recv(shadow, &mut [0; 64], libc::MSG_DONTWAIT)),
            2 => std::thread::sleep(Duration::from_micros(dice.roll(300))),
            _ => {}
        }
    }
}

fn one_call(dice: &mut Dice, end: &End, set: i32) {
    let mut bytes = [0; 9000];
    let wait_ns = Some(dice.roll(10_000_000));
    let mut events = [const { MaybeUninit::uninit() }; 4];
    let choice = dice.roll(9);
    *DOING.lock().unwrap() = format!("call {choice} on descriptor {}", end.fd);
    match choice {
        0 => drop(end.recv(&mut bytes, libc::MSG_DONTWAIT)),
        1 => drop(end.recv(&mut bytes[..dice.roll(9000) as usize], 0)),
        2 => drop(end.recv(&mut bytes, libc::MSG_PEEK | libc::MSG_DONTWAIT)),
        3 => drop(end.recv(&mut bytes, libc::MSG_TRUNC | libc::MSG_DONTWAIT)),
        4 => drop(end.send(&bytes[..dice.roll(9000) as usize], libc::MSG_DONTWAIT)),
        5 => drop(end.send(&bytes, 0)),
        6 => {
            let mut fds = [libc::pollfd { fd: end.fd, events: libc::POLLIN, revents: 0 }];
            let _ = poll::poll(&mut fds, wait_ns, None);
        }
        7 => drop(epoll::look(set, &mut events, Some(0), false)),
        _ if dice.roll(20) == 0 => {
            demote::leave(end.fd, end.index(), heliostat_abi::code::Native::Call)
        }
        _ => drop(end.recv(&mut bytes[..4000], libc::MSG_WAITALL)),
    }
    BEATS.fetch_add(1, SeqCst);
}

fn round(seed: u64) {
    let mut dice = Dice(seed);
    let (client, server) = direct();
    let memory = support::control().newest_channel();
    let (honest, hostile) = if seed % 2 == 0 { (client, server) } else { (server, client) };
    honest.set_timeouts(Duration::from_millis(10));
    if dice.roll(4) == 0 {
        // As after a fork: the lock of the side is taken too.
        assert!(side_lock::prepare());
        honest.take_shared_locks();
    }
    // SAFETY: epoll_create1 takes no pointer.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    epoll::created(set);
    let wanted = libc::EPOLLIN | libc::EPOLLOUT | (libc::EPOLLET * dice.roll(2) as i32);
    let event = libc::epoll_event { events: wanted as u32, u64: 5 };
    let by_kernel = || unreachable!("a stream is added in memory");
    let added = epoll::control(set, libc::EPOLL_CTL_ADD, honest.fd, Some(event), by_kernel);
    assert_eq!(added, Some(Ok(0)));
    let stop = AtomicBool::new(false);
    let seed = dice.roll(u64::MAX);
    std::thread::scope(|scope| {
        scope.spawn(|| attack(seed, &memory, hostile.fd, &stop));
        for _ in 0..CALLS_PER_ROUND {
            one_call(&mut dice, &honest, set);
        }
        *DOING.lock().unwrap() = "close".into();
        drop(honest);
        BEATS.fetch_add(1, SeqCst);
        stop.store(true, Relaxed);
    });
    heliostat_stub_posix::process::closing(set);
    let _ = call::close(set);
}

#[test]
fn an_end_beside_a_scribbling_peer_sees_errors_and_never_hangs() {
    watch();
    let replay = std::env::var("HELIOSTAT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = replay.map_or(0..ROUNDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("HELIOSTAT_SEED={seed}");
        round(seed);
    }
}
