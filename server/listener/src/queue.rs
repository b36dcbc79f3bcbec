//! A worker's queue: a pair of unix sockets in which each message is a connection.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use heliostat_abi::listener::Handed;
use heliostat_backend_socket::along::{self, Received};
use heliostat_base::sys;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    sendmsg, shutdown, socketpair, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType,
};

use crate::closing::{Foreign, Owner};

/// How a message is received: the worker's end is the same socket, so it chooses what comes beside the
/// descriptor (SO_PASSCRED, SO_PASSPIDFD, SO_PASSSEC).
type Look = fn(RawFd, &mut [u8]) -> Result<Received, sys::Errno>;

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

    /// Takes one connection out of it again; none when the worker was faster, or there is no descriptor for it.
    pub fn take_back(&self) -> Option<(Handed, Foreign)> {
        loop {
            // A look gives a descriptor as well. So what a message brings is never closed by receiving it,
            // which may linger, and without a descriptor for it the message stays where it is.
            let _held = self.receive(along::peek)?;
            let (bytes, fd) = self.receive(along::receive)?;
            if let (Ok(handed), Some(fd)) = (Handed::decode(&bytes), fd) {
                return Some((handed, fd));
            }
        }
    }

    /// The next message, or a look at it; none where there is none, or the table has no room for its descriptor.
    fn receive(&self, how: Look) -> Option<(Vec<u8>, Option<Foreign>)> {
        let mut bytes = [0; Handed::BYTES];
        let received = how(self.reading.as_fd().as_raw_fd(), &mut bytes).ok()?;
        let fd = received.fds.into_iter().next();
        // Only this thread sends into it, and always with a descriptor.
        if received.count == 0 || received.is_cut {
            return None;
        }
        Some((bytes[..received.count].to_vec(), fd.map(|fd| self.owner.own(fd.into()))))
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
    fn what_else_a_worker_has_its_messages_bring_takes_no_connection_along() {
        let (queue, theirs) = Queue::create(&crate::tests::owner()).unwrap();
        rustix::net::sockopt::set_socket_passcred(&theirs, true).unwrap();
        for serial in 0..2 {
            queue.put(&handed(serial), std::io::stderr()).unwrap();
        }
        assert_eq!(queue.take_back().unwrap().0, handed(0));
        assert_eq!(queue.take_back().unwrap().0, handed(1));
        assert!(queue.take_back().is_none());
    }

    #[test]
    fn a_descriptor_of_the_sender_that_a_worker_asks_for_is_not_taken_for_the_connection() {
        let (queue, theirs) = Queue::create(&crate::tests::owner()).unwrap();
        let passes = 76; // SO_PASSPIDFD, of Linux 6.5 and later
        if heliostat_base::call::set_option(theirs.as_raw_fd(), libc::SOL_SOCKET, passes, 1)
            .is_err()
        {
            return;
        }
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        queue.put(&handed(1), &near).unwrap();
        let (_, connection) = queue.take_back().unwrap();
        let inode = heliostat_base::call::inode(near.as_raw_fd());
        assert_eq!(heliostat_base::call::inode(connection.as_fd().as_raw_fd()), inode);
    }

    #[test]
    fn a_worker_can_send_nothing_back() {
        let (_queue, theirs) = Queue::create(&crate::tests::owner()).unwrap();
        let sent = rustix::net::send(&theirs, b"garbage", SendFlags::NOSIGNAL);
        assert_eq!(sent, Err(Errno::PIPE));
    }
}
