//! The requests that show a socket: put off until it was examined, and answered then.

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use tracing::debug;

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::proofs::{Examined, Purpose, Shown};
use crate::refused::{full, Refused};

impl Daemon {
    /// Has a socket examined that a session shows; the request is answered after that.
    pub(crate) fn examine(
        &mut self,
        id: ObjectId,
        socket: ReceivedFd,
        purpose: Purpose,
    ) -> Result<Answer, Refused> {
        self.session(id)?;
        let (holder, sequence) = (self.holder(id)?, self.sequence_of(id)?);
        let asked = self.proofs.ask(Shown { session: id, sequence, holder, purpose, socket });
        asked.map_err(|exceeded| full(Thing::Descriptors, exceeded))?;
        self.answer_later(id);
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    /// Answers those whose sockets have been examined.
    pub(crate) fn attend_proofs(&mut self) {
        self.proofs.hear();
        while let Some((examined, is_awaited)) = self.proofs.take_found() {
            let (id, sequence) = (examined.session, examined.sequence);
            let Some(connection) = self.connections.get_mut(id).filter(|_| is_awaited) else {
                continue;
            };
            connection.awaits = None;
            let answer = self.use_proof(examined);
            self.reply(id, answer, sequence);
        }
    }

    fn use_proof(&mut self, examined: Examined) -> Result<Answer, Refused> {
        let Examined { session, purpose, proof, socket, .. } = examined;
        let proof = proof.map_err(|error| {
            debug!(%session, %error, "no proof of listening");
            error.code()
        })?;
        match purpose {
            Purpose::Listen => self.listen(session, proof),
            Purpose::Join(rule) => {
                self.join_listener(session, rule, proof, socket.ok_or(Code::BadRecord)?)
            }
        }
    }

    /// A connection whose socket is being examined has asked something else, or has gone.
    pub(crate) fn give_up_examining(&mut self, id: ObjectId) {
        let awaits = self.connections.get(id).and_then(|connection| connection.awaits);
        if awaits.is_some() && self.proofs.forget(id) == awaits {
            self.answer_late(id, Err(Code::Unwilling.into()));
        }
    }
}
