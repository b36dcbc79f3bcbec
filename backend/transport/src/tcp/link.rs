//! One connection: what waits to be written, and the message that is being read.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{sendmsg, SendAncillaryBuffer, SendFlags};

use super::framing::{prefix, Assembly, PREFIX_BYTES};
use super::socket;
use crate::limits::{HEAD_AND_HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX, WINDOW_BYTES};
use crate::transport::{EndCause, LinkEvent, LinkId, Message, NotTaken, SendToken};

/// Bytes that wait on one link: both windows of a peer, and as much again for what is no program's.
const QUEUE_BYTES_MAX: usize = 3 * WINDOW_BYTES as usize;
/// Messages that wait on one link.
const QUEUE_LENGTH_MAX: usize = 65_536;
/// Bytes that a link reads in one step before others have their turn.
const READ_BYTES_AT_ONCE: usize = 1 << 20;
/// From so much on the rest of a payload is read to where it belongs.
const DIRECT_BYTES_MIN: usize = 16 << 10;
/// Parts that one call writes: some 16 messages.
const PARTS_AT_ONCE: usize = 32;

/// One connection.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    stage: Stage,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    assembly: Assembly,
    /// Until when it sends what it has, after it was closed.
    pub lingers_until_ns: Option<u64>,
    /// Whether the epoll set watches for room.
    pub is_writable_watched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Connecting,
    Open,
    /// Everything is written, and the other side knows that nothing follows.
    Written,
}

/// A message that is being written.
#[derive(Debug)]
struct Queued {
    /// Prefix and head.
    front: Vec<u8>,
    payload: Vec<u8>,
    written: usize,
    token: SendToken,
}

/// What the kernel says of the socket.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// A read does not wait.
    pub is_readable: bool,
    /// A write does not wait.
    pub is_writable: bool,
}

impl Link {
    /// A connection that is being made.
    pub fn connecting(stream: TcpStream) -> Link {
        Link { stage: Stage::Connecting, is_writable_watched: true, ..Link::accepted(stream) }
    }

    /// A connection of somebody who knocks.
    pub fn accepted(stream: TcpStream) -> Link {
        Link {
            stream,
            stage: Stage::Open,
            queue: VecDeque::new(),
            queued_bytes: 0,
            assembly: Assembly::default(),
            lingers_until_ns: None,
            is_writable_watched: false,
        }
    }

    /// Lets it carry messages of full size.
    pub fn admit(&mut self) {
        self.assembly.admit();
    }

    /// Whether messages are taken.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open && !self.is_lingering()
    }

    /// Whether it was closed and still writes.
    pub fn is_lingering(&self) -> bool {
        self.lingers_until_ns.is_some()
    }

    /// Whether there is something to do when the socket becomes writable.
    pub fn wants_writable(&self) -> bool {
        self.stage == Stage::Connecting || !self.queue.is_empty()
    }

    /// Bytes that wait to be written.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The messages whose last byte the kernel does not have.
    pub fn unsent(&self) -> impl Iterator<Item = SendToken> + '_ {
        self.queue.iter().map(|queued| queued.token)
    }

    /// Takes a message.
    pub fn enqueue(
        &mut self,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        if message.head.len() > HEAD_AND_HEADER_BYTES_MAX
            || message.payload.len() > PAYLOAD_BYTES_MAX
        {
            return Err((NotTaken::TooLong, message));
        }
        let bytes = PREFIX_BYTES + message.head.len() + message.payload.len();
        if self.queued_bytes + bytes > QUEUE_BYTES_MAX || self.queue.len() >= QUEUE_LENGTH_MAX {
            return Err((NotTaken::Full, message));
        }
        let front = [prefix(&message).as_slice(), &message.head].concat();
        self.queued_bytes += bytes;
        self.queue.push_back(Queued { front, payload: message.payload, written: 0, token });
        Ok(())
    }

    /// Closes it: what waits is written, and then the other side is told that nothing follows.
    pub fn linger(&mut self, until_ns: u64) {
        self.lingers_until_ns = Some(until_ns);
        self.finish_writing();
    }

    fn finish_writing(&mut self) {
        if self.is_lingering() && self.stage == Stage::Open && self.queue.is_empty() {
            self.stage = Stage::Written;
            // It fails only where the connection is gone, which the next read tells.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Does what can be done, and says why the link is over if it is.
    pub fn step(
        &mut self,
        id: LinkId,
        readiness: Readiness,
        scratch: &mut [u8],
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), EndCause> {
        if self.stage == Stage::Connecting {
            if !readiness.is_writable {
                return Ok(());
            }
            socket::connected(&self.stream).map_err(|code| EndCause::Unreachable { code })?;
            self.stage = Stage::Open;
            events.push(LinkEvent::Opened { link: id, is_ours: true });
        }
        // What came goes first: a write may fail because of what the other side says there.
        if readiness.is_readable {
            self.read(id, scratch, events)?;
        }
        if readiness.is_writable {
            self.write(id, events)?;
        }
        Ok(())
    }

    /// Writes until the queue is empty or the kernel's is full.
    pub fn write(&mut self, id: LinkId, events: &mut Vec<LinkEvent>) -> Result<(), EndCause> {
        while !self.queue.is_empty() {
            match self.write_parts() {
                Ok(bytes) => self.advance(id, bytes, events),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(end_of(&error)),
            }
        }
        self.finish_writing();
        Ok(())
    }

    fn write_parts(&mut self) -> io::Result<usize> {
        let mut parts = [IoSlice::new(&[]); PARTS_AT_ONCE];
        let mut count = 0;
        for queued in self.queue.iter().take(PARTS_AT_ONCE / 2) {
            let front = queued.written.min(queued.front.len());
            parts[count] = IoSlice::new(&queued.front[front..]);
            parts[count + 1] = IoSlice::new(&queued.payload[queued.written - front..]);
            count += 2;
        }
        let mut nothing_beside = SendAncillaryBuffer::default();
        Ok(sendmsg(&self.stream, &parts[..count], &mut nothing_beside, SendFlags::NOSIGNAL)?)
    }

    fn advance(&mut self, id: LinkId, mut bytes: usize, events: &mut Vec<LinkEvent>) {
        self.queued_bytes -= bytes;
        while let Some(first) = self.queue.front_mut() {
            let left = first.front.len() + first.payload.len() - first.written;
            if bytes < left {
                first.written += bytes;
                return;
            }
            bytes -= left;
            events.push(LinkEvent::Sent { link: id, token: first.token });
            self.queue.pop_front();
        }
    }

    fn read(
        &mut self,
        id: LinkId,
        scratch: &mut [u8],
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), EndCause> {
        let mut left = READ_BYTES_AT_ONCE;
        let before = events.len();
        while left > 0 {
            match self.read_some(id, scratch, events) {
                // The connection's end comes after everything that was sent.
                Ok(Came::Some(0)) => return Err(EndCause::Closed),
                Ok(Came::Some(bytes)) => left = left.saturating_sub(bytes),
                Ok(Came::All(bytes)) => {
                    left = left.saturating_sub(bytes);
                    break;
                }
                Ok(Came::Ended(end)) => return Err(end),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(end_of(&error)),
            }
            if self.assembly.is_stranger() && events.len() > before {
                // The next message may be the first of an admitted link.
                return Ok(());
            }
        }
        if events.len() == before && left < READ_BYTES_AT_ONCE {
            events.push(LinkEvent::Alive { link: id });
        }
        Ok(())
    }

    /// One call of the kernel. No byte beyond its message is read from a stranger.
    fn read_some(
        &mut self,
        id: LinkId,
        scratch: &mut [u8],
        events: &mut Vec<LinkEvent>,
    ) -> io::Result<Came> {
        if let Some(rest) =
            self.assembly.payload_rest().filter(|rest| rest.len() >= DIRECT_BYTES_MIN)
        {
            let wanted = rest.len();
            let bytes = (&self.stream).read(rest)?;
            let whole = self.assembly.filled(bytes);
            events.extend(whole.map(|message| LinkEvent::Received { link: id, message }));
            return Ok(Came::of(bytes, wanted));
        }
        let most = if self.assembly.is_stranger() { self.assembly.lacks() } else { scratch.len() };
        let bytes = (&self.stream).read(&mut scratch[..most])?;
        let mut came = &scratch[..bytes];
        while !came.is_empty() {
            match self.assembly.feed(&mut came) {
                Ok(whole) => {
                    events.extend(whole.map(|message| LinkEvent::Received { link: id, message }))
                }
                Err(what) => return Ok(Came::Ended(EndCause::Malformed(what))),
            }
        }
        Ok(Came::of(bytes, most))
    }
}

/// What one call of the kernel has brought.
enum Came {
    /// So many bytes, and there may be more; none at the end of the connection.
    Some(usize),
    /// So many bytes, and there are no more now.
    All(usize),
    /// No message of ours.
    Ended(EndCause),
}

impl Came {
    /// A call brings less than was wanted only where there is no more.
    fn of(bytes: usize, wanted: usize) -> Came {
        if bytes > 0 && bytes < wanted {
            Came::All(bytes)
        } else {
            Came::Some(bytes)
        }
    }
}

fn end_of(error: &io::Error) -> EndCause {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => EndCause::Closed,
        _ => EndCause::Broken { code: error.raw_os_error().unwrap_or(0) },
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
