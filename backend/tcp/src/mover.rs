//! Many transfers between sockets and shared memory by one call of the kernel.
//!
//! ```text
//! transfers of a round --> submission queue --io_uring_enter(2)--> all of their answers
//! ```
//! No transfer waits (MSG_DONTWAIT), so all have completed when the call returns, and nothing is under
//! way between two of them: who is killed, or takes a connection back, finds each where its counters
//! say. That is why nothing is received ahead (a multishot receive would put bytes into buffers that
//! no lane has, and a killed loop would lose them), and why a socket that is empty costs no operation:
//! readiness is an epoll set's to tell. Where the kernel gives no io_uring, and for a few transfers,
//! each is a call of its own.

use heliostat_base::call;
use heliostat_base::mapping::Pieces;
use heliostat_base::sys::Errno;
use io_uring::{opcode, squeue, types, IoUring};

/// Transfers of one call at most.
const ENTRIES: usize = 256;
/// Fewer are made by calls of their own: a round through the ring costs as much as two of them.
const RING_FROM: usize = 3;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the socket into memory.
    Receive,
    /// From memory to the socket.
    Send,
}

/// One transfer.
pub struct Transfer {
    /// The socket, open until it was made.
    pub socket: i32,
    /// Where its bytes lie, or shall.
    pub pieces: Pieces,
    /// Which way they go.
    pub direction: Direction,
}

/// Makes transfers, for one thread: the one that has created it.
pub struct Mover {
    ring: Option<IoUring>,
    vectors: Vec<[libc::iovec; 2]>,
    headers: Vec<libc::msghdr>,
}

impl Mover {
    /// With a ring where the kernel gives one.
    pub fn create() -> Self {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun();
        Self { ring: builder.build(ENTRIES as u32).ok(), ..Self::without_ring() }
    }

    /// By calls alone.
    pub fn without_ring() -> Self {
        Self { ring: None, vectors: Vec::new(), headers: Vec::new() }
    }

    /// Whether it has a ring.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Makes all transfers, none of which waits, and puts their answers in the same order.
    pub fn make(&mut self, transfers: &[Transfer], answers: &mut Vec<Result<usize, Errno>>) {
        answers.clear();
        for part in transfers.chunks(ENTRIES) {
            match &mut self.ring {
                Some(ring) if part.len() >= RING_FROM => {
                    let first = answers.len();
                    answers.resize(first + part.len(), Err(Errno(libc::EAGAIN)));
                    describe(part, &mut self.vectors, &mut self.headers);
                    by_ring(ring, part, &mut self.headers, &mut answers[first..]);
                }
                _ => answers.extend(part.iter().map(by_call)),
            }
        }
    }
}

fn flags_of(direction: Direction) -> i32 {
    match direction {
        Direction::Receive => libc::MSG_DONTWAIT,
        Direction::Send => libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
    }
}

fn by_call(transfer: &Transfer) -> Result<usize, Errno> {
    let (mut vectors, flags) = (transfer.pieces.vectors(), flags_of(transfer.direction));
    // SAFETY: the pieces are memory that stays mapped, and no reference covers shared memory.
    unsafe {
        match transfer.direction {
            Direction::Receive => call::recv_pieces(transfer.socket, &mut vectors, flags),
            Direction::Send => call::send_pieces(transfer.socket, &vectors, flags),
        }
    }
}

/// The lists that the kernel reads, at places that do not change until all have completed.
fn describe(
    transfers: &[Transfer],
    vectors: &mut Vec<[libc::iovec; 2]>,
    headers: &mut Vec<libc::msghdr>,
) {
    vectors.clear();
    vectors.extend(transfers.iter().map(|transfer| transfer.pieces.vectors()));
    headers.clear();
    headers.extend(vectors.iter_mut().map(|both| {
        // SAFETY: a msghdr is numbers and addresses, for which zero is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (both.as_mut_ptr(), both.len());
        header
    }));
}

fn entry_of(transfer: &Transfer, header: &mut libc::msghdr) -> squeue::Entry {
    let (socket, flags) = (types::Fd(transfer.socket), flags_of(transfer.direction));
    match (transfer.direction, transfer.pieces.only()) {
        (Direction::Receive, Some((start, len))) => {
            opcode::Recv::new(socket, start, len as u32).flags(flags).build()
        }
        (Direction::Send, Some((start, len))) => {
            opcode::Send::new(socket, start, len as u32).flags(flags).build()
        }
        (Direction::Receive, None) => {
            opcode::RecvMsg::new(socket, header).flags(flags as u32).build()
        }
        (Direction::Send, None) => opcode::SendMsg::new(socket, header).flags(flags as u32).build(),
    }
}

fn by_ring(
    ring: &mut IoUring,
    transfers: &[Transfer],
    headers: &mut [libc::msghdr],
    answers: &mut [Result<usize, Errno>],
) {
    let mut pushed = 0;
    for (at, (transfer, header)) in transfers.iter().zip(headers).enumerate() {
        let entry = entry_of(transfer, header).user_data(at as u64);
        // SAFETY: pieces and lists live until this function returns, and all have completed by then.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            break; // as many entries as transfers: it has room
        }
        pushed += 1;
    }
    let mut done = 0;
    while done < pushed {
        // An interruption, or a full queue, is tried again: what is under way has to come back.
        let _ = ring.submit_and_wait(pushed - done);
        for completion in ring.completion() {
            let result = completion.result();
            if let Some(answer) = answers.get_mut(completion.user_data() as usize) {
                *answer = usize::try_from(result).map_err(|_| Errno(-result));
            }
            done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use heliostat_base::mapping::SharedMapping;

    use super::*;

    const PAIRS: usize = 300;

    /// Sends from memory through each pair and receives into other memory, in pieces that wrap.
    fn there_and_back(mut mover: Mover) {
        let (_, from) = SharedMapping::create(c"from", 4096).unwrap();
        let (_, to) = SharedMapping::create(c"to", PAIRS * 16).unwrap();
        let text: Vec<u8> = (0..4096).map(|at| at as u8).collect();
        from.copy_in(0, &text).unwrap();
        let (from, to) = (Arc::new(from), Arc::new(to));
        let pairs: Vec<_> = (0..PAIRS).map(|_| UnixStream::pair().unwrap()).collect();
        let sends = pairs.iter().map(|(near, _)| Transfer {
            socket: near.as_raw_fd(),
            pieces: Pieces::of(&from, [(4090, 6), (0, 4)]).unwrap(),
            direction: Direction::Send,
        });
        let sends: Vec<_> = sends.collect();
        let receives = pairs.iter().enumerate().map(|(at, (_, far))| Transfer {
            socket: far.as_raw_fd(),
            pieces: Pieces::of(&to, [(at * 16, 16), (0, 0)]).unwrap(),
            direction: Direction::Receive,
        });
        let receives: Vec<_> = receives.collect();
        let mut answers = Vec::new();
        mover.make(&sends, &mut answers);
        assert!(answers.len() == PAIRS && answers.iter().all(|answer| *answer == Ok(10)));
        mover.make(&receives, &mut answers);
        assert!(answers.len() == PAIRS && answers.iter().all(|answer| *answer == Ok(10)));
        mover.make(&receives, &mut answers);
        assert!(answers.iter().all(|answer| *answer == Err(Errno(libc::EAGAIN))));
        let mut seen = [0; 10];
        to.copy_out((PAIRS - 1) * 16, &mut seen).unwrap();
        assert_eq!(seen, [250, 251, 252, 253, 254, 255, 0, 1, 2, 3]);
    }

    #[test]
    fn many_transfers_are_made_at_once_and_none_waits() {
        there_and_back(Mover::create());
        there_and_back(Mover::without_ring());
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_of_its_own_transfer_alone() {
        let (_, memory) = SharedMapping::create(c"memory", 4096).unwrap();
        let memory = Arc::new(memory);
        let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        let mut pairs = pairs.into_iter();
        let (gone, _) = pairs.next().unwrap();
        let kept: Vec<_> = pairs.collect();
        let transfer = |socket: i32| Transfer {
            socket,
            pieces: Pieces::of(&memory, [(0, 5), (0, 0)]).unwrap(),
            direction: Direction::Send,
        };
        let all: Vec<_> = std::iter::once(transfer(gone.as_raw_fd()))
            .chain(kept.iter().map(|(near, _)| transfer(near.as_raw_fd())))
            .collect();
        let mut answers = Vec::new();
        Mover::create().make(&all, &mut answers);
        assert_eq!(answers[0], Err(Errno(libc::EPIPE)));
        assert!(answers[1..].iter().all(|answer| *answer == Ok(5)));
    }
}
