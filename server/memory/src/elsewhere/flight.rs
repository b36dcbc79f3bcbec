//! One operation on another node: its parts, what came of them, and how it ends.

use heliostat_abi::cluster::Class;
use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::memory::operation::{set_of, CopySource, WORD_BYTES};
use heliostat_abi::memory::peer::{
    PeerAction, PeerAnswer, PeerHandle, PeerOperation, PeerRefusal, Range, CHANGE_BYTES_MAX,
    CHUNK_BYTES_MAX,
};

use crate::held::Refusal;
use crate::there::{Answer, NoAnswer, Part, There};
use crate::ways::Way;
use crate::work::{Change, WindowPieces};

/// How often a part is sent again because its region moves. A region that grows is settled after one;
/// of one that goes to other pieces the operation rests for a millisecond between two.
const TRIES_MAX: u32 = 120_000;
/// As many are made without a rest.
const TRIES_AT_ONCE: u32 = 3;

/// What is done.
#[derive(Clone, Copy)]
enum Plan {
    Read,
    Write,
    Set(u8),
    Copy(PeerHandle, u64),
    Word(Change),
}

/// An operation.
pub struct Flight {
    there: There,
    plan: Plan,
    asked: Operation,
    whole: u64,
    /// Bytes that were sent for, from the first on.
    begun: u64,
    done: u64,
    under_way: u32,
    /// Parts to be sent once more.
    again: Vec<Part>,
    tries: u32,
    /// What it ends with, whatever else comes.
    failure: Option<i32>,
    /// Something of it was done, or may have been.
    has_effect: bool,
    word_result: u64,
    /// It stands among the session's that wait for room.
    pub is_waiting: bool,
    /// How urgent it is.
    pub class: Class,
}

impl Flight {
    /// Plans an operation. A copy's source is looked up by `find`; it may be known already.
    pub fn plan(
        asked: &Operation,
        there: There,
        (pieces, known): (&WindowPieces<'_>, Option<CopySource>),
        find: impl FnOnce(&CopySource) -> Result<There, Refusal>,
    ) -> Result<Flight, Refusal> {
        let errno = |errno| Err(Refusal::Errno(errno));
        let (plan, whole) = match asked.kind {
            OpKind::Read => (Plan::Read, asked.pieces.bytes()),
            OpKind::Write => (Plan::Write, asked.pieces.bytes()),
            OpKind::Set => match set_of(asked.argument) {
                Some((value, whole)) => (Plan::Set(value), whole),
                None => return errno(libc::EINVAL),
            },
            OpKind::Copy => {
                let source = known.map_or_else(|| pieces.copy_source(), Ok)?;
                let from = find(&source)?;
                if from.peer != there.peer {
                    return errno(libc::EXDEV);
                }
                (Plan::Copy(from.handle, source.offset), source.bytes)
            }
            OpKind::FetchAdd | OpKind::CompareSwap | OpKind::Swap => {
                (Plan::Word(pieces.change_of(asked)?), WORD_BYTES as u64)
            }
            _ => return errno(libc::EINVAL),
        };
        if asked.offset.checked_add(whole).is_none() {
            return errno(libc::ERANGE);
        }
        Ok(Flight {
            there,
            plan,
            asked: *asked,
            whole,
            begun: 0,
            done: 0,
            under_way: 0,
            again: Vec::new(),
            tries: 0,
            failure: None,
            has_effect: false,
            word_result: 0,
            is_waiting: false,
            class: Class::Normal,
        })
    }

    /// What is asked.
    pub fn asked(&self) -> &Operation {
        &self.asked
    }

    /// Where it goes.
    pub fn there(&self) -> &There {
        &self.there
    }

    /// By which way.
    pub fn way(&self) -> Way {
        Way { class: self.class, link: self.there.peer.link }
    }

    /// The next part that may be sent now, if there is one.
    pub fn next(&self) -> Option<Part> {
        if self.failure.is_some() {
            return None;
        }
        if let Some(part) = self.again.last() {
            return Some(*part);
        }
        let left = self.whole.saturating_sub(self.begun);
        let most = match self.plan {
            Plan::Read | Plan::Write => CHUNK_BYTES_MAX,
            // One after the other: they are long at the other end, and nothing is gained.
            _ if self.under_way > 0 => return None,
            Plan::Set(_) => CHANGE_BYTES_MAX,
            // As much as that node does in one turn.
            Plan::Copy(..) => left,
            Plan::Word(_) => WORD_BYTES as u64,
        };
        (left > 0).then_some(Part { at: self.begun, bytes: left.min(most) })
    }

    /// Bytes of a part's message, or of the answer to it.
    pub fn carried(&self, part: Part) -> u64 {
        match self.plan {
            Plan::Read | Plan::Write => part.bytes,
            _ => 0,
        }
    }

    /// The message of a part, which is on the way from now on.
    pub fn send(
        &mut self,
        part: Part,
        pieces: &WindowPieces<'_>,
    ) -> Result<(PeerOperation, Vec<u8>), Refusal> {
        let offset = self.asked.offset;
        let of = Range { offset, bytes: self.whole };
        let its = Range { offset: offset + part.at, bytes: part.bytes };
        let mut payload = Vec::new();
        let action = match self.plan {
            Plan::Read => PeerAction::Read { part: its, of },
            Plan::Write => {
                payload = vec![0; part.bytes as usize];
                pieces.take(part.at, &mut payload)?;
                PeerAction::Write { part: its, of }
            }
            Plan::Set(value) => PeerAction::Set { part: its, of, value },
            Plan::Copy(source, from) => {
                PeerAction::Copy { to: offset, source, from, bytes: self.whole, done: self.done }
            }
            Plan::Word(Change::Add(more)) => PeerAction::FetchAdd { offset, more },
            Plan::Word(Change::Swap(new)) => PeerAction::Swap { offset, new },
            Plan::Word(Change::CompareSwap(expected, new)) => {
                PeerAction::CompareSwap { offset, expected, new }
            }
        };
        match self.again.last() == Some(&part) {
            true => drop(self.again.pop()),
            false => self.begun = self.begun.max(part.at + part.bytes),
        }
        self.under_way += 1;
        Ok((PeerOperation { handle: self.there.handle, action }, payload))
    }

    /// A part has its answer.
    pub fn answered(&mut self, part: Part, answer: Answer, pieces: &WindowPieces<'_>) {
        self.under_way = self.under_way.saturating_sub(1);
        let taken = match answer {
            // Nothing of it was sent, and the other node has no part in that.
            Err(NoAnswer::Full) => {
                self.keep(part);
                Ok(())
            }
            Err(why) => {
                self.has_effect |= matches!(why, NoAnswer::Lost | NoAnswer::Late);
                Err(why.errno())
            }
            Ok((PeerAnswer { result: Err(PeerRefusal::Again), .. }, _)) => self.try_again(part),
            // Its session sends it again when that node lets it.
            Ok((PeerAnswer { result: Err(PeerRefusal::Busy), .. }, _)) => {
                self.keep(part);
                Ok(())
            }
            Ok((PeerAnswer { result: Err(refusal), .. }, _)) => Err(errno_of(refusal)),
            Ok((PeerAnswer { result: Ok(done), word }, bytes)) => {
                self.has_effect |= !matches!(self.plan, Plan::Read);
                self.take(part, (done, word), &bytes, pieces)
            }
        };
        if let Err(errno) = taken {
            self.fail(errno);
        }
    }

    /// Whether it is to rest before it is sent again.
    pub fn is_tired(&self) -> bool {
        self.tries > TRIES_AT_ONCE && !self.again_is_empty()
    }

    fn again_is_empty(&self) -> bool {
        self.again.is_empty() && !matches!(self.plan, Plan::Copy(..))
    }

    /// It ends with this, once nothing of it is on the way.
    pub fn fail(&mut self, errno: i32) {
        self.failure = self.failure.or(Some(errno));
    }

    /// What it ends with, if it is over.
    pub fn result(&self) -> Option<i64> {
        if self.under_way > 0 {
            return None;
        }
        match (self.failure, self.plan) {
            // What is told is what may have happened to all of it, not to the part that failed.
            (Some(libc::EHOSTDOWN), _) if self.has_effect => Some(-i64::from(libc::ECONNRESET)),
            (Some(errno), _) => Some(-i64::from(errno)),
            (None, _) if self.done < self.whole => None,
            (None, Plan::Word(_)) => Some(self.word_result as i64),
            (None, _) => Some(self.whole as i64),
        }
    }

    fn try_again(&mut self, part: Part) -> Result<(), i32> {
        self.tries += 1;
        if self.tries > TRIES_MAX {
            return Err(libc::EAGAIN);
        }
        self.keep(part);
        Ok(())
    }

    /// Keeps a part that is to be sent again.
    fn keep(&mut self, part: Part) {
        if matches!(self.plan, Plan::Copy(..)) {
            self.begun = self.done;
        } else {
            self.again.push(part);
        }
    }

    /// Takes what the other node says that it has done, as far as that can be.
    fn take(
        &mut self,
        part: Part,
        (done, word): (u64, u64),
        bytes: &[u8],
        pieces: &WindowPieces<'_>,
    ) -> Result<(), i32> {
        let is_whole = match self.plan {
            Plan::Read => done == part.bytes && bytes.len() as u64 == done,
            Plan::Write | Plan::Set(_) => done == part.bytes && bytes.is_empty(),
            Plan::Copy(..) => (1..=part.bytes).contains(&done) && bytes.is_empty(),
            Plan::Word(_) => bytes.is_empty(),
        };
        if !is_whole {
            return Err(libc::EREMOTEIO);
        }
        let put = match self.plan {
            Plan::Read => pieces.put(part.at, bytes),
            Plan::Word(change) => pieces.answer_word(change, word).map(|result| {
                self.word_result = result;
            }),
            _ => Ok(()),
        };
        put.map_err(|_| libc::EFAULT)?;
        self.done += if matches!(self.plan, Plan::Word(_)) { part.bytes } else { done };
        if matches!(self.plan, Plan::Copy(..)) {
            self.begun = self.done;
        }
        Ok(())
    }
}

fn errno_of(refusal: PeerRefusal) -> i32 {
    match refusal {
        PeerRefusal::NoHandle => libc::EBADF,
        PeerRefusal::Stale => libc::ESTALE,
        PeerRefusal::Denied => libc::EACCES,
        PeerRefusal::Range => libc::ERANGE,
        PeerRefusal::Misaligned => libc::EINVAL,
        PeerRefusal::Again | PeerRefusal::Busy => libc::EAGAIN,
        PeerRefusal::Malformed => libc::EREMOTEIO,
    }
}

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
