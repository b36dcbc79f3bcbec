//! One request on a connection, and the answer that belongs to it.

use heliostat_abi::code::Code;
use heliostat_abi::session::record::{Reply, Request, REPLY_BYTES};
use heliostat_base::fd::OwnedFd;
use heliostat_base::packet::PacketSocket;
use heliostat_base::sys::Errno;

use crate::ControlError;

/// An answer, and the descriptors that came with it.
pub type Answered = (Reply, Vec<OwnedFd>);

/// Sends a request with descriptors [fds] and waits for its answer, for as long as the socket's
/// timeout says at most. `sequence` marks the two as belonging together. A refusal is an answer.
///
/// # Errors
/// After `NoDescriptors` the answer is lost and the connection can be asked again; after every
/// other error it is of no use any more.
pub fn exchange(
    socket: &PacketSocket,
    request: &Request,
    fds: &[i32],
    sequence: u32,
) -> Result<Answered, ControlError> {
    socket.send(&request.encode(sequence), fds).map_err(ControlError::Broken)?;
    let mut record = [0; REPLY_BYTES];
    loop {
        let (bytes, fds) = socket.receive(&mut record).map_err(|errno| match errno {
            Errno(libc::EMSGSIZE) => ControlError::NoDescriptors,
            errno => ControlError::Broken(errno),
        })?;
        let record = record.get(..bytes).unwrap_or_default();
        let (reply, answered) = Reply::decode(record).map_err(ControlError::Malformed)?;
        // An older answer that came after its deadline is dropped with its descriptors.
        if answered == sequence || is_of_unread(&reply, answered) {
            return Ok((reply, fds));
        }
    }
}

/// Whether it refuses a request that the other side could not read, and so not number.
fn is_of_unread(reply: &Reply, answered: u32) -> bool {
    answered == 0
        && matches!(reply, Reply::Refused { code: Code::BadRecord | Code::BadVersion, .. })
}
