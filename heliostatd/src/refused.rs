//! Why a request is refused, in the words of the protocol, whichever service refuses it.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Bound;
use heliostat_server_loop::WindowError;
use heliostat_service_grant::{Exceeded, Full, Reason, Refusal};
use tracing::debug;

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The code.
    pub code: Code,
    /// The limit in force, or zero.
    pub limit: u64,
    /// On what, and whose.
    pub bound: Bound,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Refused { code, limit: 0, bound: Bound::NONE }
    }
}

impl From<Full> for Refused {
    fn from(Full { bound, limit }: Full) -> Self {
        Refused { code: Code::Full, limit, bound }
    }
}

impl From<WindowError> for Refused {
    fn from(error: WindowError) -> Self {
        match error {
            WindowError::NotMemory => Code::BadRecord.into(),
            WindowError::TooLarge { limit, .. } => {
                full_of(Thing::WindowBytes, Side::Session, limit)
            }
        }
    }
}

impl<R: Reason> From<Refusal<R>> for Refused {
    fn from(refusal: Refusal<R>) -> Self {
        match refusal {
            Refusal::Full(full) => full.into(),
            Refusal::Revoked => Code::Revoked.into(),
            Refusal::Reason(reason) => reason.code().into(),
        }
    }
}

/// What a service refused a session, logged.
pub fn refuse<R: Reason>(session: ObjectId) -> impl FnOnce(Refusal<R>) -> Refused {
    move |refusal| {
        debug!(%session, %refusal, "refused");
        refusal.into()
    }
}

/// A refusal for a limit on what users share.
pub fn full(thing: Thing, exceeded: Exceeded) -> Refused {
    Full::shared(thing, exceeded).into()
}

/// A refusal for a limit of one session, or of one object.
pub fn full_of(thing: Thing, side: Side, limit: u64) -> Refused {
    Full::of(thing, side, limit).into()
}
