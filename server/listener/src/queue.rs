//! A worker's queue: a pair of unix sockets in which each message is a connection.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use heliostat_abi::listener::Handed;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    recvmsg, sendmsg, shutdown, socketpair, AddressFamily, RecvAncillaryBuffer,
    RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown, SocketFlags, SocketType,
};

use crate::closing::{Foreign, Owner};

/// The thread's side of a queue.
pub struct Queue {
    /// What connections are sent into.
    writing: OwnedFd,
    /// A duplicate of the worker's end. What lies in it may linger, and so is its last close foreign.
    reading: Foreign,
    owner: Owner,
}

impl Queue {
    /// A new queue, and the worker's end of it.
    ///
    /// The worker cannot send: what it sends would lie here unread.
    pub fn create(owner: &Owner) -> Result<(Queue, OwnedFd), Errno> {
        let flags = SocketFlags::CLOEXEC;
        let (writing, reading) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        shutdown(&writing, Shutdown::Read)?;
        let theirs = rustix::io::fcntl_dupfd_cloexec(&reading, 0)?;
        Ok((Queue { writing, reading: owner.own(reading), owner: owner.clone() }, theirs))
    }

    /// Puts a connection into it. The sender keeps its descriptor.
    pub fn put(&self, handed: &Handed, connection: impl AsFd) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [connection.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let bytes = handed.encode();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.writing, &[IoSlice::new(&bytes)], &mut ancillary, flags).map(|_| ())
    }

    /// How many connections lie in it, as the kernel counts.
    pub fn untaken(&self) -> u64 {
        let bytes = rustix::io::ioctl_fionread(&self.reading).unwrap_or(0);
        bytes.div_ceil(Handed::BYTES as u64)
    }

    /// Takes one connection out of it again; none when the worker was faster.
    pub fn take_back(&self) -> Option<(Handed, Foreign)> {
        loop {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut bytes = [0; Handed::BYTES];
            let parts = &mut [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = recvmsg(&self.reading, parts, &mut ancillary, flags).ok()?;
            if received.bytes == 0 {
                return None;
            }
            let fd = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            // Only this thread sends into it; where the table had no room for the descriptor the
            // connection is lost, as it would be by any receiver.
            if let (Ok(handed), Some(fd)) = (Handed::decode(&bytes[..received.bytes]), fd) {
                return Some((handed, self.owner.own(fd)));
            }
        }
    }

    /// What becomes writable when the worker has taken something.
    pub fn writing(&self) -> BorrowedFd<'_> {
        self.writing.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::name::NetAddress;

    fn handed(serial: u64) -> Handed {
        Handed { peer: NetAddress::new("127.0.0.1:9".parse().unwrap()), serial }
    }

    #[test]
    fn what_is_not_taken_is_counted_and_taken_back_though_the_worker_is_gone() {
        let (queue, theirs) = Queue::create(&crate::tests::owner()).unwrap();
        for serial in 0..3 {
            queue.put(&handed(serial), std::io::stderr()).unwrap();
        }
        assert_eq!(queue.untaken(), 3);
        drop(theirs);
        assert_eq!(queue.take_back().unwrap().0, handed(0));
        assert_eq!(queue.untaken(), 2);
        assert!(queue.take_back().is_some() && queue.take_back().is_some());
        assert!(queue.take_back().is_none());
    }

    #[test]
    fn a_worker_can_send_nothing_back() {
        let (_queue, theirs) = Queue::create(&crate::tests::owner()).unwrap();
        let sent = rustix::net::send(&theirs, b"garbage", SendFlags::NOSIGNAL);
        assert_eq!(sent, Err(Errno::PIPE));
    }
}
