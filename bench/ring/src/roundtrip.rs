//! Request and response of 64 B over two rings.

use std::os::fd::AsRawFd;

use heliostat_base::affinity::pin;
use heliostat_base::clock::monotonic_ns;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{Refresh, RingError, RingMemory, SpscConsumer, SpscProducer};

/// Bytes of a request and of a response.
pub const MESSAGE_BYTES: usize = 64;

const CAPACITY: u64 = 16 << 10;

struct End {
    send: SpscProducer,
    receive: SpscConsumer,
}

/// Two rings; each end maps the memory for itself, as two processes would.
fn ends() -> Result<(End, End), RingError> {
    let (there_fd, there) = RingMemory::create(c"bench-there", CAPACITY)?;
    let (back_fd, back) = RingMemory::create(c"bench-back", CAPACITY)?;
    let there_end = RingMemory::attach(there_fd.as_raw_fd(), 0)?;
    let back_end = RingMemory::attach(back_fd.as_raw_fd(), 0)?;
    let lazy = Refresh::Lazy;
    let client = End { send: there.spsc_producer(lazy)?, receive: back.spsc_consumer(lazy)? };
    let server =
        End { send: back_end.spsc_producer(lazy)?, receive: there_end.spsc_consumer(lazy)? };
    Ok((client, server))
}

impl End {
    #[inline]
    fn send(&mut self, bytes: &[u8; MESSAGE_BYTES]) {
        // At most one message is under way, so the ring is never full.
        let _ = self.send.push(bytes);
    }

    #[inline]
    fn receive(&mut self, bytes: &mut [u8; MESSAGE_BYTES]) {
        while self.receive.pop(bytes).is_err() {
            let _ = self.receive.wait(&Patience::ENDLESS, &Immortal);
        }
    }
}

/// Nanoseconds of one round trip, doorbells included.
pub fn ours_ns(cores: (usize, usize), turns: u64) -> Result<f64, RingError> {
    let (mut client, mut server) = ends()?;
    Ok(std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(cores.1);
            let mut bytes = [0; MESSAGE_BYTES];
            for _ in 0..turns {
                server.receive(&mut bytes);
                bytes[0] = bytes[0].wrapping_add(1);
                server.send(&bytes);
            }
        });
        let _ = pin(cores.0);
        let mut bytes = [0; MESSAGE_BYTES];
        let mut start = monotonic_ns();
        for turn in 0..turns {
            if turn == turns / 10 {
                start = monotonic_ns();
            }
            client.send(&bytes);
            client.receive(&mut bytes);
        }
        assert_eq!(bytes[0], turns as u8, "every message went round");
        (monotonic_ns() - start) as f64 / (turns - turns / 10) as f64
    }))
}
