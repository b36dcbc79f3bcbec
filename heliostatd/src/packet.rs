//! Records and descriptors over the control socket, never waiting.
//!
//! A message is looked at before it is taken. What the kernel does not bring of a message that is
//! taken (too many descriptors, no room for them) it closes in the receiver's name, which may wait
//! for its sender (`closer`); of one that is looked at it closes nothing.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use heliostat_abi::limits::FDS_PER_REPLY_MAX;
use heliostat_abi::session::record::REQUEST_BYTES;
use rustix::cmsg_space;
use rustix::io::{retry_on_intr, Errno};
use rustix::net::{
    recv, recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::closer::{CloserOf, ReceivedFd};
use crate::spare::Spare;

/// One message as it came: foreign bytes and foreign descriptors.
pub struct Message {
    /// The bytes; longer ones were cut to one more than a request has, and so are refused.
    pub bytes: Vec<u8>,
    /// Descriptors that came along.
    pub fds: Vec<ReceivedFd>,
    /// Why not all of them.
    pub lack: Option<Lack>,
    /// It lies in the socket still, and has to be closed with it.
    pub is_left: bool,
}

/// Why a message did not bring all its descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// They were more than any message may bring.
    TooMany,
    /// There was no room for them, which is not the sender's fault.
    NoRoom,
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
pub fn receive(socket: impl AsFd, closer: &CloserOf, spare: &mut Spare) -> Received {
    spare.refill();
    let mut bytes = [0u8; REQUEST_BYTES + 1];
    let mut seen = look(&socket, &mut bytes);
    let is_short =
        |seen: &Result<PeekedMessage, Errno>| seen.as_ref().is_ok_and(PeekedMessage::is_short);
    let was_short = is_short(&seen);
    if was_short {
        // Not the last of them: the message is in the socket still.
        drop(seen);
        spare.lend();
        seen = look(&socket, &mut bytes);
    }
    let PeekedMessage { length, fds, is_cut } = match seen {
        Ok(seen) => seen,
        Err(Errno::AGAIN) => return Received::Nothing,
        Err(_) => return Received::End,
    };
    // An empty packet reads as the end too; no stub sends one.
    if length == 0 && fds.is_empty() {
        return Received::End;
    }
    let fds: Vec<ReceivedFd> = fds.into_iter().map(|fd| ReceivedFd::new(fd, closer)).collect();
    let lack = match was_short {
        true => Some(Lack::NoRoom),
        false => is_cut.then_some(Lack::TooMany),
    };
    if !is_cut {
        // All descriptors are here by now, so the kernel's are not the last.
        let _ = retry_on_intr(|| recv(&socket, &mut [0; 1], RecvFlags::DONTWAIT));
    }
    Received::Message(Message { bytes: bytes[..length].to_vec(), fds, lack, is_left: is_cut })
}

/// A message that lies in the socket.
struct PeekedMessage {
    length: usize,
    fds: Vec<OwnedFd>,
    /// It has more descriptors.
    is_cut: bool,
}

impl PeekedMessage {
    /// Fewer came than there was space for in the message.
    fn is_short(&self) -> bool {
        self.is_cut && self.fds.len() < FDS_PER_REPLY_MAX
    }
}

fn look(socket: impl AsFd, bytes: &mut [u8]) -> Result<PeekedMessage, Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_PER_REPLY_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK;
    let message = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => continue,
            answer => break answer?,
        }
    };
    let mut fds = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    let is_cut = message.flags.contains(ReturnFlags::CTRUNC);
    Ok(PeekedMessage { length: message.bytes, fds, is_cut })
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
