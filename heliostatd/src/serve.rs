//! One request: received, checked, answered.
//!
//! A client is served a few requests and then has to wait its turn. A malformed request is
//! answered and counted against its sender; a client that does not take its answer at once has
//! filled its socket with answers it never read, and is ended.

use std::os::fd::AsFd;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Bound, Reply, Request, Row};
use heliostat_base::clock::monotonic_ns;
use rustix::io::Errno;
use tracing::{debug, trace, warn};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::{Asked, Daemon};
use crate::packet::{self, Lack, Message, Received};
use crate::refused::{full_of, Refused};
use crate::room::Room;
use crate::shares::descriptor_limit;
use crate::state::asks::Waiter;

/// Requests of one client served before others have their turn.
const SERVED_AT_ONCE: usize = 8;
/// Malformed requests after which a client is ended.
const FAULTS_MAX: u32 = 8;

/// Whether a client may be served once more before others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    GoesOn,
    Over,
}

impl Daemon {
    /// Serves what a connection has sent, up to a number of requests.
    pub(crate) fn serve_some(&mut self, id: ObjectId, now_ns: u64) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.served_ns = now_ns;
            if connection.awaits.is_some() {
                // It has not waited: what it asked for is no longer wanted, or it has gone.
                self.give_up_waiting(id);
            }
        }
        for _ in 0..SERVED_AT_ONCE {
            let Some(connection) = self.connections.get(id) else { return };
            let Some(holder) = self.connections.holder(id) else { return };
            let closer = self.closer.of(holder);
            match packet::receive(&connection.socket, &closer, &mut self.spare) {
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
            Ok((request, sequence)) => match self.row(&request) {
                Some(row) if lack.is_none() && row.brings.contains(&fds.len()) => {
                    trace!(connection = %id, ?request, "asked");
                    self.counts.asked(request.number());
                    match self.make_room(id, row.answers) {
                        Ok(Room::Made) => {
                            (self.answer(id, (request, sequence), &row, fds), sequence)
                        }
                        Ok(Room::Ended) => return Turn::Over,
                        Err(refused) => (Err(refused), sequence),
                    }
                }
                _ => {
                    debug!(connection = %id, ?request, fds = fds.len(), "no such request");
                    (Err(Code::BadRecord.into()), sequence)
                }
            },
            Err(error) => {
                debug!(connection = %id, %error, "a malformed request");
                (Err(code_of(&error).into()), 0)
            }
        };
        // A text may have cost as much as a thousand opens.
        let is_text = matches!(&answer, Ok(Answer { reply: Reply::Text { .. }, .. }));
        if self.connections.get(id).is_some_and(|it| it.awaits.is_some()) {
            return Turn::Over;
        }
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
        (request, sequence): (Request, u32),
        row: &Row,
        fds: Vec<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.asked_ns = monotonic_ns();
            connection.sequence = sequence;
        }
        self.check_restriction(id, &request, row)?;
        if row.keeps > 0 {
            self.check_descriptors(self.holder(id)?, row.keeps)?;
        }
        self.answer_by_service(Asked { session: id, request, fds })
    }

    /// Has the service answer whose request it is.
    fn answer_by_service(&mut self, asked: Asked) -> Result<Answer, Refused> {
        let number = match &asked.request {
            Request::Own(own) => own.service(),
            known => known.kind().ok_or(Code::BadRecord)?.service() as u16,
        };
        let service = self.parts.table.iter().find(|service| service.number() == number);
        service.ok_or(Code::Internal)?.answer(self, asked)
    }

    /// The request that is being served is answered later, by `answer_late`; until then its connection
    /// is served nothing else.
    pub(crate) fn answer_later(&mut self, id: ObjectId) {
        self.answer_later_as(id);
    }

    /// The same; answers the request's number, for `answer_late_to`.
    pub(crate) fn answer_later_as(&mut self, id: ObjectId) -> Option<u32> {
        let connection = self.connections.get_mut(id)?;
        connection.awaits = Some(connection.sequence);
        connection.awaits
    }

    /// The number of the request that is being served.
    pub(crate) fn sequence_of(&self, id: ObjectId) -> Result<u32, Refused> {
        Ok(self.connections.get(id).ok_or(Code::Internal)?.sequence)
    }

    /// Answers those who have waited for another node: it has not answered in time, or they have ended.
    pub(crate) fn answer_waiters(&mut self, waiters: Vec<Waiter>, code: Code) {
        for Waiter { session, sequence, .. } in waiters {
            self.answer_late_to(session, sequence, Err(code.into()));
        }
    }

    /// A connection that waits for somebody's answer has asked something else, or has gone.
    fn give_up_waiting(&mut self, id: ObjectId) {
        if self.give_up_lock_waiting(id) || self.give_up_store_waiting(id) {
            return;
        }
        let mut given_up = self.services.memory.across.asks.give_up(id);
        given_up.extend(self.services.rpc.across.asks.give_up(id));
        let replica = self.services.replica.as_mut();
        given_up.extend(replica.map(|it| it.give_up(id)).unwrap_or_default());
        self.answer_waiters(given_up, Code::Unreachable);
        self.give_up_examining(id);
        if self.connections.get(id).is_some_and(|it| it.awaits.is_some()) {
            self.give_up_question(id);
        }
    }

    /// Answers a request that was put off, if its connection still waits.
    pub(crate) fn answer_late(&mut self, id: ObjectId, answer: Result<Answer, Refused>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(sequence) = connection.awaits.take() {
            // A malformed request is not put off: this is another node's word, and no fault of this one.
            self.send_reply(id, answer, sequence);
        }
    }

    /// The same, if its connection waits for that very request. Answers of other nodes come at any
    /// time: the connection may have given up, and wait for another one.
    pub(crate) fn answer_late_to(
        &mut self,
        id: ObjectId,
        sequence: u32,
        answer: Result<Answer, Refused>,
    ) {
        if self.connections.get(id).is_some_and(|it| it.awaits == Some(sequence)) {
            self.answer_late(id, answer);
        }
    }

    /// Answers, and counts an answer that says that the request was malformed.
    pub(crate) fn reply(&mut self, id: ObjectId, answer: Result<Answer, Refused>, sequence: u32) {
        let code = answer.as_ref().err().map(|refused| refused.code);
        let malformed = matches!(code, Some(Code::BadRecord | Code::BadVersion));
        if let Some(connection) = self.connections.get_mut(id) {
            connection.faults += u32::from(malformed);
        }
        self.send_reply(id, answer, sequence);
    }

    fn send_reply(&mut self, id: ObjectId, answer: Result<Answer, Refused>, sequence: u32) {
        let uid = self.connections.holder(id).map_or(0, |holder| holder.uid);
        let answer = answer.unwrap_or_else(|refused| {
            self.note_refused(uid, refused);
            let Refused { code, limit, bound } = refused;
            Reply::Refused { code, limit, bound }.into()
        });
        self.count_unread(id, &answer);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let too_many = connection.faults > FAULTS_MAX;
        let fds: Vec<_> = answer.fds.iter().map(|fd| fd.as_fd()).collect();
        let record = answer.reply.encode(sequence);
        match packet::send(&connection.socket, &record, &fds) {
            Err(Errno::TOOMANYREFS) if !fds.is_empty() => self.refuse_late(id, sequence),
            Err(Errno::AGAIN) => self.end_deaf(id),
            Err(errno) => {
                debug!(connection = %id, %errno, "an answer was not taken");
                self.end_connection(id, "it does not take its answers");
            }
            Ok(()) if too_many => self.end_connection(id, "it sent too many malformed requests"),
            Ok(()) => {}
        }
    }

    /// Other programs of the control plane's own user have too many descriptors on their way: what
    /// was asked may be done, but cannot be told.
    fn refuse_late(&mut self, id: ObjectId, sequence: u32) {
        warn!(connection = %id, "the kernel takes no descriptors in messages of this user");
        let refused = full_of(Thing::Unread, Side::Node, descriptor_limit());
        self.reply(id, Err(refused), sequence);
    }

    /// Counts a refusal, and tells it if it is the first for a limit.
    pub(crate) fn note_refused(&mut self, uid: u32, refused: Refused) {
        self.counts.refused(refused.code);
        if refused.bound != Bound::NONE {
            self.denials.note_full(uid, refused.bound, refused.limit);
        }
    }
}

/// The control plane has as many descriptors as it may.
fn no_room() -> Refused {
    full_of(Thing::Descriptors, Side::Node, descriptor_limit())
}

fn code_of(error: &heliostat_abi::wire::WireError) -> Code {
    match error {
        heliostat_abi::wire::WireError::Version { .. } => Code::BadVersion,
        _ => Code::BadRecord,
    }
}
