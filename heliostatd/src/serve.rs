//! One request: received, checked, answered.
//!
//! A client is served a few requests and then has to wait its turn. A malformed request is
//! answered and counted against its sender; a client that does not take its answer at once has
//! filled its socket with answers it never read, and is ended.

use std::os::fd::AsFd;
use std::rc::Rc;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::record::{Reply, Request};
use heliostat_base::clock::monotonic_ns;
use rustix::process::{getrlimit, Resource};
use tracing::{debug, trace};

use crate::closer::Shown;
use crate::daemon::Daemon;
use crate::packet::{self, Lack, Message, Received};

/// Requests of one client served before others have their turn.
const SERVED_AT_ONCE: usize = 8;
/// Malformed requests after which a client is ended.
const FAULTS_MAX: u32 = 8;

/// What goes back to the client.
pub struct Answer {
    /// The record.
    pub reply: Reply,
    /// Descriptors that travel with it.
    pub fds: Vec<Rc<dyn AsFd>>,
}

/// Whether a client may be served once more before others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    GoesOn,
    Over,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The code.
    pub code: Code,
    /// The limit in force, or zero.
    pub limit: u64,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Refused { code, limit: 0 }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Answer { reply, fds: Vec::new() }
    }
}

impl Daemon {
    /// Serves what a connection has sent, up to a number of requests.
    pub(crate) fn serve_some(&mut self, id: ObjectId) {
        for _ in 0..SERVED_AT_ONCE {
            let Some(connection) = self.connections.get(id) else { return };
            match packet::receive(&connection.socket, &self.closer, &mut self.spare) {
                Received::Nothing => return,
                Received::End => return self.end_connection(id, "its socket was closed"),
                Received::Message(message) => {
                    if self.serve(id, message) == Turn::Over {
                        return;
                    }
                }
            }
        }
    }

    fn serve(&mut self, id: ObjectId, message: Message) -> Turn {
        let Message { bytes, fds, lack, is_left } = message;
        let (answer, sequence) = match Request::decode(&bytes) {
            Ok((_, sequence)) if lack == Some(Lack::NoRoom) => (Err(no_room()), sequence),
            Ok((request, sequence)) if fds_of(&request).contains(&fds.len()) && lack.is_none() => {
                trace!(connection = %id, ?request, "asked");
                self.counts.asked(&request);
                (self.answer(id, request, fds), sequence)
            }
            Ok((request, sequence)) => {
                debug!(connection = %id, ?request, fds = fds.len(), "wrong descriptors");
                (Err(Code::BadRecord.into()), sequence)
            }
            Err(error) => {
                debug!(connection = %id, %error, "a malformed request");
                (Err(code_of(&error).into()), 0)
            }
        };
        // A text may have cost as much as a thousand opens.
        let is_text = matches!(&answer, Ok(Answer { reply: Reply::Text { .. }, .. }));
        self.reply(id, answer, sequence);
        if is_left {
            self.end_connection(id, "it sent what cannot be taken in");
        }
        if is_text || is_left {
            Turn::Over
        } else {
            Turn::GoesOn
        }
    }

    fn answer(
        &mut self,
        id: ObjectId,
        request: Request,
        mut fds: Vec<Shown>,
    ) -> Result<Answer, Refused> {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.asked_ns = monotonic_ns();
        }
        self.check_restriction(id, &request)?;
        match request {
            Request::Hello { program } => self.greet(id, program),
            Request::Listen => self.listen(id, fds.pop().ok_or(Code::BadRecord)?),
            Request::Unlisten { port } => self.unlisten(id, port),
            Request::Open { address } => self.open(id, address),
            Request::Attach { port } => self.attach(id, port),
            Request::Status => self.status(id),
            Request::Explain { pid } => self.explain(id, pid),
            Request::Metrics => self.metrics(),
            Request::Revoke { pid } => self.revoke(id, pid),
            Request::Stop => self.stop(id),
            Request::Publish { name } => {
                let shown = <[Shown; 2]>::try_from(fds).map_err(|_| Code::BadRecord)?;
                self.publish(id, name, shown)
            }
            Request::AttachRegion { name, owner } => self.attach_region(id, name, owner, fds),
            Request::Consumers { region } => self.consumers(id, region),
            Request::Unpublish { region } => self.unpublish(id, region),
            Request::Detach { region, consumer } => self.detach(id, region, consumer),
            Request::Lease => self.lease(id, fds.pop().ok_or(Code::BadRecord)?),
            Request::EndLease { lease } => self.end_lease(id, lease),
            Request::Delegate => self.delegate(id, fds.pop().ok_or(Code::BadRecord)?),
            Request::EndDelegate => {
                self.end_delegated(id);
                Ok(Reply::Done.into())
            }
            Request::ShowFile { tag, direct } => {
                self.show_file(id, fds.pop().ok_or(Code::BadRecord)?, tag, direct)
            }
            Request::Allow { destination } => self.allow(id, destination),
            Request::Restrict { services, pid } => self.restrict(id, services, pid),
        }
    }

    fn reply(&mut self, id: ObjectId, answer: Result<Answer, Refused>, sequence: u32) {
        let answer = answer.unwrap_or_else(|Refused { code, limit }| {
            self.counts.refused(code);
            Reply::Refused { code, limit }.into()
        });
        let Some(connection) = self.connections.get_mut(id) else { return };
        let malformed =
            matches!(answer.reply, Reply::Refused { code: Code::BadRecord | Code::BadVersion, .. });
        connection.faults += u32::from(malformed);
        let too_many = connection.faults > FAULTS_MAX;
        let fds: Vec<_> = answer.fds.iter().map(|fd| fd.as_fd()).collect();
        let record = answer.reply.encode(sequence);
        if let Err(errno) = packet::send(&connection.socket, &record, &fds) {
            debug!(connection = %id, %errno, "an answer was not taken");
            self.end_connection(id, "it does not take its answers");
        } else if too_many {
            self.end_connection(id, "it sent too many malformed requests");
        }
    }
}

/// The control plane has as many descriptors as it may.
fn no_room() -> Refused {
    Refused { code: Code::Full, limit: getrlimit(Resource::Nofile).current.unwrap_or(0) }
}

/// How many descriptors a request brings: a proof of listening, a file or a window, a region's
/// memory, a page of pins with or without a bell.
fn fds_of(request: &Request) -> std::ops::RangeInclusive<usize> {
    match request {
        Request::Listen | Request::Lease => 1..=1,
        Request::Delegate | Request::ShowFile { .. } => 1..=1,
        Request::AttachRegion { .. } => 1..=2,
        Request::Publish { .. } => 2..=2,
        _ => 0..=0,
    }
}

fn code_of(error: &heliostat_abi::wire::WireError) -> Code {
    match error {
        heliostat_abi::wire::WireError::Version { .. } => Code::BadVersion,
        _ => Code::BadRecord,
    }
}
