//! What the control plane is asked of names: to have one, and to join the consumers of one.

use std::os::fd::AsRawFd;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::snapshot::region::{NameError, RegionName};
use heliostat_base::fd::OwnedFd;
use heliostat_client::{session, ControlError};

use super::door::Door;
use super::pool::PoolError;

/// Why a region has got no name, or was not found by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedError {
    /// The text is no name.
    Name(NameError),
    /// The control plane is not there, or did not answer.
    Control(ControlError),
    /// The control plane says no: why, and the limit in force or zero.
    Refused(Code, u64),
    /// The memory could not be made or mapped.
    Memory(PoolError),
}

impl std::fmt::Display for NamedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::Refused(Code::NotFound, _) => f.write_str("no region has that name now"),
            Self::Refused(Code::BadState, _) => f.write_str("a living producer has that name"),
            Self::Refused(code, 0) => f.write_str(code.text()),
            Self::Refused(code, limit) => write!(f, "{} ({limit})", code.text()),
            Self::Memory(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for NamedError {}

/// A name that this process holds, as the control plane knows it.
pub(super) struct Holding {
    pub(super) name: RegionName,
    pub(super) id: ObjectId,
    pub(super) generation: u64,
    pub(super) epoch: u64,
}

/// Takes a name for what [table, pool] hold.
pub(super) fn take_name(
    name: &str,
    (table, pool): (&OwnedFd, &OwnedFd),
) -> Result<(Holding, Door), NamedError> {
    let name = RegionName::parse(name).map_err(NamedError::Name)?;
    let before = session::standing().map_err(NamedError::Control)?;
    let fds = [table.as_raw_fd(), pool.as_raw_fd()];
    // Indices come again: the word is whatever an earlier region left, until somebody joins.
    let words: Vec<u32> = before.node.region_words();
    let reply = session::ask_in(before.epoch, &Request::Publish { name: name.clone() }, &fds);
    let (id, generation) = match reply.map_err(NamedError::Control)?.0 {
        Reply::Published { region, generation } => (region, generation),
        other => return Err(refused(&other)),
    };
    let seen = words.get(id.index as usize).copied().unwrap_or(0);
    let epoch = before.epoch;
    Ok((Holding { name, id, generation, epoch }, Door::new(before, id, seen)))
}

/// A consumer's place among those of a region; given up on drop.
pub(super) struct Membership {
    region: ObjectId,
    consumer: ObjectId,
    pub(super) epoch: u64,
    pub(super) name: RegionName,
    pub(super) owner: u32,
    pub(super) generation: u64,
}

impl Membership {
    /// Which of the name's producers it is.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        tell(self.epoch, &Request::Detach { region: self.region, consumer: self.consumer });
    }
}

/// Joins the consumers of a name, with [own page, end of a bell]; the answer brings [table, pool].
pub(super) fn join(
    name: RegionName,
    owner: u32,
    page_and_bell: [i32; 2],
) -> Result<(Membership, [OwnedFd; 2]), NamedError> {
    let epoch = session::standing().map_err(NamedError::Control)?.epoch;
    let request = Request::AttachRegion { name: name.clone(), owner };
    let (reply, fds) =
        session::ask_in(epoch, &request, &page_and_bell).map_err(NamedError::Control)?;
    let Reply::Region { region, consumer, generation } = reply else { return Err(refused(&reply)) };
    let membership = Membership { region, consumer, epoch, name, owner, generation };
    let fds = <[OwnedFd; 2]>::try_from(fds);
    fds.map(|fds| (membership, fds)).map_err(|_| NamedError::Control(ControlError::Unexpected))
}

fn refused(reply: &Reply) -> NamedError {
    match reply {
        Reply::Refused { code, limit, .. } => NamedError::Refused(*code, *limit),
        _ => NamedError::Control(ControlError::Unexpected),
    }
}

/// Says something whose answer changes nothing, to the session that it is about and no other: the
/// end of that session says it as well.
pub(super) fn tell(epoch: u64, request: &Request) {
    let _ = session::ask_in(epoch, request, &[]);
}
