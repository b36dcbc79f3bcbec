//! Bytes between a socket and the ring, moved by the kernel with no copy between.
//!
//! ```text
//! socket --recvmsg(2)--> free pieces, then publish          a loop, as the lane's writer
//! unread pieces --sendmsg(2)--> socket, then consume        a loop, as the lane's reader
//! ```
//! What was received lies in its place before it is published. So when a writer is killed between
//! both, its reader publishes in its stead, by the number of bytes that the kernel says were taken
//! off the socket ([`Lane::recover`]).

use heliostat_abi::stream::channel::direction as at;
use heliostat_base::mapping::Pieces;

use super::{Corrupt, Lane, Place, ReadDone, WriteCache};
use crate::sync::Ordering::{Relaxed, SeqCst};

impl Lane {
    /// The free bytes behind the tail, at most `limit`. They are the writer's until it publishes.
    ///
    /// # Errors
    /// The reader's position contradicts the ring's size.
    pub fn free_pieces(&self, limit: u64, cache: &mut WriteCache) -> Result<Pieces, Corrupt> {
        let (tail, room, origin) = self.prepare(limit, cache)?;
        Ok(self.pieces(tail.wrapping_sub(origin), room.min(limit)))
    }

    /// Publishes `bytes` that were put into `free_pieces`.
    pub fn publish_pieces(&self, bytes: usize) {
        self.publish(self.place.u64(at::TAIL).load(Relaxed), bytes as u64);
    }

    /// The unread bytes from `skip` on, at most `limit`. They stay unread until they are consumed.
    ///
    /// # Errors
    /// The writer's position contradicts the ring's size.
    pub fn unread_pieces(&self, skip: u64, limit: u64) -> Result<Pieces, Corrupt> {
        let unread = self.unread()?.saturating_sub(skip).min(limit);
        let head = self.place.u64(at::HEAD).load(Relaxed).wrapping_add(skip);
        Ok(self.pieces(head.wrapping_sub(self.place.u64(at::ORIGIN).load(Relaxed)), unread))
    }

    /// Says that the first `bytes` of the unread ones are not needed any more.
    pub fn consume(&self, bytes: usize) -> ReadDone {
        self.advance(self.place.u64(at::HEAD).load(Relaxed), bytes as u64)
    }

    /// Reader: the writer is gone, and had put `bytes` more behind the tail than it has published.
    ///
    /// # Errors
    /// So many do not fit.
    pub fn recover(&self, bytes: u64) -> Result<(), Corrupt> {
        let tail = self.place.u64(at::TAIL).load(Relaxed);
        let next = tail.wrapping_add(bytes);
        self.checked(bytes)?;
        self.checked(next.wrapping_sub(self.place.u64(at::HEAD).load(Relaxed)))?;
        self.place.u64(at::TAIL).swap(next, SeqCst);
        Ok(())
    }

    /// Reader: the writer of the other direction is gone, and `bytes` of the unread ones were sent.
    /// For a lane whose reader has died; only where nobody else reads it.
    ///
    /// # Errors
    /// There are not so many.
    pub fn account(&self, bytes: u64) -> Result<(), Corrupt> {
        let unread = self.unread()?;
        if bytes > unread {
            return Err(Corrupt { unread: bytes, capacity: unread });
        }
        self.consume(bytes as usize);
        Ok(())
    }

    fn pieces(&self, from: u64, bytes: u64) -> Pieces {
        let start = from & (self.capacity() - 1);
        let first = bytes.min(self.capacity() - start);
        self.place.pieces(start as usize, first as usize, (bytes - first) as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{IoSlice, IoSliceMut};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use heliostat_base::call;
    use heliostat_base::mapping::SharedMapping;
    use heliostat_base::sys::Errno;

    use super::*;

    const RING: u32 = 16384;

    fn lane() -> Lane {
        let (_, memory) = SharedMapping::create(c"lane", 4096 + RING as usize).unwrap();
        let lane = Lane::new(&Arc::new(memory), 0, 4096, RING).unwrap();
        lane.reset(320);
        lane
    }

    /// Receives what a socket has, as a loop does.
    fn receive(lane: &Lane, socket: &UnixStream, cache: &mut WriteCache) -> Result<usize, Errno> {
        let pieces = lane.free_pieces(RING.into(), cache).unwrap();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: free bytes of a ring, which nobody reads before they are published.
        let answer = unsafe { call::recv_pieces(socket.as_raw_fd(), &mut pieces.vectors(), flags) };
        lane.publish_pieces(answer.unwrap_or(0));
        answer
    }

    fn bytes(count: usize, seed: usize) -> Vec<u8> {
        (0..count).map(|at| (at * 7 + seed) as u8).collect()
    }

    #[test]
    fn what_a_socket_brings_is_read_and_what_is_written_is_sent_around_the_ring() {
        let (here, there) = UnixStream::pair().unwrap();
        let (lane, mut cache) = (lane(), WriteCache::new());
        for round in 0..20 {
            let sent = bytes(5000, round);
            assert_eq!(call::send(there.as_raw_fd(), &sent, 0), Ok(5000));
            assert_eq!(receive(&lane, &here, &mut cache), Ok(5000));
            let mut seen = vec![0; 6000];
            let done = lane.read(&mut [IoSliceMut::new(&mut seen)], false).unwrap();
            assert_eq!((done.bytes, &seen[..5000]), (5000, &sent[..]));

            assert_eq!(lane.write(&[IoSlice::new(&sent)], &mut cache), Ok(5000));
            let pieces = lane.unread_pieces(0, RING.into()).unwrap();
            // SAFETY: unread bytes of a ring.
            let answer = unsafe { call::send_pieces(here.as_raw_fd(), &pieces.vectors(), 0) };
            assert_eq!(answer, Ok(5000));
            assert_eq!(lane.consume(5000).bytes, 5000);
            let mut seen = vec![0; 5000];
            assert_eq!(call::recv(there.as_raw_fd(), &mut seen, 0), Ok(5000));
            assert_eq!(seen, sent);
        }
    }

    #[test]
    fn an_empty_socket_publishes_nothing_and_an_ended_one_says_so() {
        let (here, there) = UnixStream::pair().unwrap();
        let (lane, mut cache) = (lane(), WriteCache::new());
        let nothing = receive(&lane, &here, &mut cache);
        assert_eq!((nothing, lane.unread()), (Err(Errno(libc::EAGAIN)), Ok(0)));
        drop(there);
        assert_eq!(receive(&lane, &here, &mut cache), Ok(0));
    }

    #[test]
    fn bytes_that_a_killed_writer_received_and_did_not_publish_are_recovered() {
        let (here, there) = UnixStream::pair().unwrap();
        let (lane, mut cache) = (lane(), WriteCache::new());
        let sent = bytes(3000, 1);
        call::send(there.as_raw_fd(), &sent, 0).unwrap();
        let pieces = lane.free_pieces(RING.into(), &mut cache).unwrap();
        // SAFETY: as in `receive`.
        let answer = unsafe { call::recv_pieces(here.as_raw_fd(), &mut pieces.vectors(), 0) };
        assert_eq!((answer, lane.unread()), (Ok(3000), Ok(0)));
        lane.recover(3000).unwrap();
        let mut seen = vec![0; 4000];
        let done = lane.read(&mut [IoSliceMut::new(&mut seen)], false).unwrap();
        assert_eq!((done.bytes, &seen[..3000]), (3000, &sent[..]));
        assert!(lane.recover(u64::from(RING) + 1).is_err());
    }

    #[test]
    fn what_a_killed_reader_has_sent_is_accounted_for_once() {
        let (lane, mut cache) = (lane(), WriteCache::new());
        lane.write(&[IoSlice::new(&bytes(100, 3))], &mut cache).unwrap();
        lane.account(40).unwrap();
        assert_eq!(lane.unread(), Ok(60));
        assert!(lane.account(61).is_err());
    }

    #[test]
    fn pieces_behind_a_reader_position_that_contradicts_the_ring_are_refused() {
        let (_, memory) = SharedMapping::create(c"lane", 4096 + RING as usize).unwrap();
        let memory = Arc::new(memory);
        let lane = Lane::new(&memory, 0, 4096, RING).unwrap();
        lane.reset(0);
        memory.atomic_u64(at::HEAD).store(5, Relaxed);
        assert!(lane.free_pieces(u64::from(RING) + 1, &mut WriteCache::new()).is_err());
        assert!(lane.unread_pieces(0, 1).is_err());
    }
}
