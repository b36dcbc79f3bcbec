//! The handshake of one link: each side proves to the other that it knows the cluster's secret.
//!
//! ```text
//! who connects                                    who listens
//!   Opening   --Opened-->  hello            -->     AwaitsHello
//!   AwaitsChallenge        <--  challenge           AwaitsProof
//!   (proves)               proof            -->     (checks)  Joined
//!   (checks)  Joined       <--  welcome
//! ```
//!
//! A proof is a keyed BLAKE3 of the prover's role and of both greetings, so it is of no use in
//! another handshake, with other numbers, or for the other side. Who connects proves first: a
//! stranger who knocks gets nothing that it could try guesses against.
//!
//! Pure: a record in, records out.

use crate::frame::HandshakeKind;
use crate::greeting::{Greeting, JoinRefusal, GREETING_BYTES};
use crate::identity::{Identity, NodeId};

/// How far the handshake of a link is.
#[derive(Debug)]
pub enum Handshake {
    /// This side connects; the link is not open yet.
    Opening,
    /// This side listens.
    AwaitsHello,
    /// This side said hello.
    AwaitsChallenge,
    /// This side sent its challenge.
    AwaitsProof(Transcript),
    /// This side sent its proof.
    AwaitsWelcome(Transcript),
}

/// What both sides said: the proofs are of this.
#[derive(Debug)]
pub struct Transcript {
    hello: [u8; GREETING_BYTES],
    challenge: [u8; GREETING_BYTES],
    theirs: Greeting,
}

/// What a record leads to.
#[derive(Debug)]
pub enum Progress {
    /// This record is to be sent, and another is awaited.
    Say(HandshakeKind, Vec<u8>, Handshake),
    /// The other side has proven itself; a listener still sends this welcome.
    Proven(Greeting, Option<Vec<u8>>),
    /// It has not. The refusal is said to the other side unless it is the other's own.
    Refused {
        /// Why.
        why: JoinRefusal,
        /// Whether it is the other side's word.
        is_theirs: bool,
    },
}

const CONNECTS: &[u8] = b"heliostat who connects";
const LISTENS: &[u8] = b"heliostat who listens";

impl Handshake {
    /// The other side, if it has to welcome this one and nothing else is missing.
    pub fn awaits_welcome_of(&self) -> Option<&Greeting> {
        match self {
            Handshake::AwaitsWelcome(transcript) => Some(&transcript.theirs),
            _ => None,
        }
    }

    /// Takes a record of the other side. `ours` is what this side says of itself on this link, and
    /// `wanted` the node that it wants to reach, if it minds.
    pub fn step(
        self,
        kind: HandshakeKind,
        record: &[u8],
        me: &Identity,
        ours: &Greeting,
        wanted: Option<NodeId>,
    ) -> Progress {
        let step = match (self, kind) {
            (_, HandshakeKind::Refuse) => {
                return Progress::Refused { why: JoinRefusal::decode(record), is_theirs: true };
            }
            (Handshake::AwaitsHello, HandshakeKind::Hello) => challenge(record, ours, wanted),
            (Handshake::AwaitsChallenge, HandshakeKind::Challenge) => {
                prove(record, me, ours, wanted)
            }
            (Handshake::AwaitsProof(transcript), HandshakeKind::Proof) => {
                welcome(record, me, &transcript)
            }
            (Handshake::AwaitsWelcome(transcript), HandshakeKind::Welcome) => {
                conclude(record, me, &transcript)
            }
            _ => Err(JoinRefusal::Malformed),
        };
        step.unwrap_or_else(|why| Progress::Refused { why, is_theirs: false })
    }
}

fn challenge(
    record: &[u8],
    ours: &Greeting,
    wanted: Option<NodeId>,
) -> Result<Progress, JoinRefusal> {
    let theirs = judge(record, ours, wanted)?;
    let transcript = Transcript { hello: theirs.encode(), challenge: ours.encode(), theirs };
    let said = transcript.challenge.to_vec();
    Ok(Progress::Say(HandshakeKind::Challenge, said, Handshake::AwaitsProof(transcript)))
}

fn prove(
    record: &[u8],
    me: &Identity,
    ours: &Greeting,
    wanted: Option<NodeId>,
) -> Result<Progress, JoinRefusal> {
    let theirs = judge(record, ours, wanted)?;
    let transcript = Transcript { hello: ours.encode(), challenge: theirs.encode(), theirs };
    let proof = transcript.proof(me, CONNECTS).as_bytes().to_vec();
    Ok(Progress::Say(HandshakeKind::Proof, proof, Handshake::AwaitsWelcome(transcript)))
}

fn welcome(record: &[u8], me: &Identity, transcript: &Transcript) -> Result<Progress, JoinRefusal> {
    transcript.check(record, me, CONNECTS)?;
    let said = transcript.proof(me, LISTENS).as_bytes().to_vec();
    Ok(Progress::Proven(transcript.theirs, Some(said)))
}

fn conclude(
    record: &[u8],
    me: &Identity,
    transcript: &Transcript,
) -> Result<Progress, JoinRefusal> {
    transcript.check(record, me, LISTENS)?;
    Ok(Progress::Proven(transcript.theirs, None))
}

/// What the other side says of itself, if one may go on with such a node.
fn judge(record: &[u8], ours: &Greeting, wanted: Option<NodeId>) -> Result<Greeting, JoinRefusal> {
    let theirs = Greeting::decode(record, ours.kind)?;
    if theirs.node == ours.node {
        return Err(JoinRefusal::Itself);
    }
    match wanted {
        Some(node) if node != theirs.node => {
            Err(JoinRefusal::OtherNode { found: theirs.node.0, wanted: node.0 })
        }
        _ => Ok(theirs),
    }
}

impl Transcript {
    fn proof(&self, me: &Identity, role: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&me.secret.proof_key());
        hasher.update(role).update(&self.hello).update(&self.challenge);
        hasher.finalize()
    }

    /// Compares in constant time (`blake3::Hash` does), so that no byte can be guessed alone.
    fn check(&self, record: &[u8], me: &Identity, role: &[u8]) -> Result<(), JoinRefusal> {
        let found = <[u8; 32]>::try_from(record).map_err(|_| JoinRefusal::Malformed)?;
        if self.proof(me, role) == blake3::Hash::from_bytes(found) {
            Ok(())
        } else {
            Err(JoinRefusal::Secret)
        }
    }
}

#[cfg(test)]
mod tests;
