//! Records and descriptors over the control socket, never waiting.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use heliostat_abi::limits::FDS_PER_REPLY_MAX;
use heliostat_abi::record::REQUEST_BYTES;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::closer::{Closer, Shown};

/// One message as it came: foreign bytes and foreign descriptors.
pub struct Message {
    /// The bytes; longer ones were cut to one more than a request has, and so are refused.
    pub bytes: Vec<u8>,
    /// Descriptors that came along.
    pub fds: Vec<Shown>,
    /// Descriptors were lost, because there were too many.
    pub cut: bool,
}

/// What the socket had.
pub enum Received {
    /// A message.
    Message(Message),
    /// Nothing at the moment.
    Nothing,
    /// The other side is gone.
    End,
}

/// Takes one message from a client. What came with it is closed by the closer.
pub fn receive(socket: impl AsFd, closer: &Closer) -> Received {
    let mut bytes = [0u8; REQUEST_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_PER_REPLY_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let answer = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => continue,
            answer => break answer,
        }
    };
    let (length, flags) = match answer {
        Ok(message) => (message.bytes, message.flags),
        Err(Errno::AGAIN) => return Received::Nothing,
        Err(_) => return Received::End,
    };
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights.map(|fd| Shown::new(fd, closer)));
        }
    }
    // An empty packet reads as the end too; no stub sends one.
    if length == 0 && fds.is_empty() {
        return Received::End;
    }
    let cut = flags.contains(ReturnFlags::CTRUNC);
    Received::Message(Message { bytes: bytes[..length].to_vec(), fds, cut })
}

/// Sends one record with descriptors, or says that the client does not take it at once.
pub fn send(socket: impl AsFd, record: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_PER_REPLY_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOBIG);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(&socket, &[IoSlice::new(record)], &mut ancillary, flags) {
            Err(Errno::INTR) => continue,
            answer => return answer.map(|_| ()),
        }
    }
}
