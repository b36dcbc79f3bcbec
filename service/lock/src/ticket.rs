//! A ticket: one acquisition, or one arrival at a barrier, from its request to its end.

use heliostat_abi::lock::Outcome;
use heliostat_abi::name::ObjectId;

/// A ticket.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    /// What it is of.
    pub object: ObjectId,
    /// By which of the session's handles.
    pub handle: ObjectId,
    /// How much of it.
    pub amount: u64,
    /// Whether its holder may change what the lock protects, so that its death matters.
    pub writes: bool,
    /// How it stands.
    pub state: State,
    /// Its place among what its session has not been told.
    pub untold: Option<u64>,
}

/// How a ticket stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// In its object's line, by place.
    Waiting { place: u64 },
    /// It holds its amount.
    Held {
        /// With this token.
        token: u64,
        /// The death that it was told of; zero for none.
        death: u64,
    },
    /// A barrier has let it go on, or broke; it ends when it is told.
    Over(Outcome),
}

impl Ticket {
    /// How it stands, for its session.
    pub fn outcome(&self) -> Outcome {
        match self.state {
            State::Waiting { .. } => Outcome::Queued,
            State::Held { token, death } => Outcome::Granted { token, has_owner_died: death > 0 },
            State::Over(outcome) => outcome,
        }
    }
}
