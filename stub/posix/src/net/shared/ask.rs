//! What is asked of the control plane about shared listeners. A no, or no answer, is no share.

use std::os::fd::AsRawFd;

use heliostat_abi::listener::{page, ListenerReply, ListenerRequest, Rule};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_client::{session, Answered};

use super::table::{self, Part};

/// What a worker is given.
pub struct Joined {
    /// Which worker this process is.
    pub worker: ObjectId,
    /// In which session.
    pub epoch: u64,
    /// Its end of the queue.
    pub queue: OwnedFd,
    /// The place of its page.
    page: u32,
}

impl Joined {
    /// What the table keeps of it.
    pub fn part(&self) -> Part {
        Part { worker: self.worker, epoch: self.epoch, page: self.page }
    }
}

/// This process becomes a worker of the listener of this socket.
pub fn join(socket: i32, rule: Option<Rule>) -> Option<Joined> {
    let answered = asked(None, ListenerRequest::Join { rule }, &[socket]);
    let (ListenerReply::Joined { worker, .. }, fds) = reply(answered?)? else { return None };
    let epoch = session::epoch()?;
    let Ok([queue, page]) = <[OwnedFd; 2]>::try_from(fds) else { return None };
    let page = SharedMapping::from_fd(page.as_raw_fd(), page::BYTES, Access::ReadWrite);
    match page.ok().and_then(table::keep_page) {
        Some(page) => Some(Joined { worker, epoch, queue, page }),
        None => {
            leave(epoch, worker);
            None
        }
    }
}

/// The listening socket of a shared address.
pub fn find(address: NetAddress) -> Option<OwnedFd> {
    let (ListenerReply::Found, mut fds) =
        reply(asked(None, ListenerRequest::Find { address }, &[])?)?
    else {
        return None;
    };
    fds.pop()
}

/// This process takes from a queue that it has inherited: the session that says so.
pub fn hold(worker: ObjectId) -> Option<u64> {
    let (Reply::Done, _) = asked(None, ListenerRequest::Hold { worker }, &[])? else { return None };
    session::epoch()
}

/// This process waits for connections.
pub fn ready(epoch: u64, worker: ObjectId) {
    asked(Some(epoch), ListenerRequest::Ready { worker }, &[]);
}

/// This process takes from it no more; the session's end says the same.
pub fn leave(epoch: u64, worker: ObjectId) {
    asked(Some(epoch), ListenerRequest::Leave { worker }, &[]);
}

fn asked(epoch: Option<u64>, request: ListenerRequest, fds: &[i32]) -> Option<Answered> {
    let request = Request::Own(request.encode());
    match epoch {
        Some(epoch) => session::ask_in(epoch, &request, fds).ok(),
        None => session::ask(&request, fds).ok(),
    }
}

fn reply((reply, fds): Answered) -> Option<(ListenerReply, Vec<OwnedFd>)> {
    let Reply::Own(own) = reply else { return None };
    Some((ListenerReply::decode(&own).ok()?, fds))
}
