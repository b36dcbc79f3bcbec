//! One part of a region that is spread, as a name and a node lead to it: checked against its head.

use heliostat_abi::code::Code;
use heliostat_abi::memory::spread::{Directory, SpreadHead, SpreadPart, HEAD_BYTES};
use heliostat_abi::memory::Rights;
use heliostat_abi::session::record::Bound;
use heliostat_client::ControlError;

use super::{with_head, SpreadError};
use crate::{Memory, MemoryError, Region};

/// A part and what its head says.
pub(super) struct Found {
    pub(super) region: Region,
    pub(super) head: SpreadHead,
}

/// What a name is looked for by.
pub(super) struct Sought<'a> {
    pub(super) memory: &'a Memory,
    pub(super) user: u32,
    pub(super) name: &'a str,
}

/// What a control plane says where nothing has a name.
pub(super) const NOT_FOUND: MemoryError = MemoryError::Control(ControlError::Refused {
    code: Code::NotFound,
    limit: 0,
    bound: Bound::NONE,
});

impl Sought<'_> {
    /// Another part of a region; or why it is lost. Where its node has it no more, or is lost, it may have
    /// moved to another one before.
    pub(super) fn part(
        &self,
        number: usize,
        directory: &Directory,
        rights: Rights,
    ) -> Result<Result<Found, MemoryError>, SpreadError> {
        let Some(listed) = directory.parts.get(number) else { return Ok(Err(NOT_FOUND)) };
        let why = match self.part_on(listed.node, number, directory, rights)? {
            Ok(found) => return Ok(Ok(found)),
            Err(why) => why,
        };
        let others = self.memory.nodes()?.into_iter().filter(|node| *node != listed.node);
        for node in others {
            if let Ok(Ok(found)) = self.part_on(node, number, directory, rights) {
                return Ok(Ok(found));
            }
        }
        Ok(Err(why))
    }

    /// The same, as a node has it.
    fn part_on(
        &self,
        node: u64,
        number: usize,
        directory: &Directory,
        rights: Rights,
    ) -> Result<Result<Found, MemoryError>, SpreadError> {
        let Some(listed) = directory.parts.get(number) else { return Ok(Err(NOT_FOUND)) };
        let gone = MemoryError::Stale { region: listed.region };
        match self.find(node, rights) {
            Ok(found) if found.head.directory == *directory && found.head.number == number => {
                Ok(Ok(found))
            }
            // Another region has the name by now, or something that is none.
            Ok(_) | Err(SpreadError::Corrupt { .. }) => Ok(Err(gone)),
            Err(SpreadError::Memory(error)) => match error {
                MemoryError::Unreachable { .. } | MemoryError::Node { .. } => Ok(Err(error)),
                MemoryError::Stale { .. } => Ok(Err(gone)),
                error if error.refusal() == Some(Code::NotFound) => Ok(Err(gone)),
                error => Err(error.into()),
            },
            Err(error) => Err(error),
        }
    }

    /// A part that a node has, and what its head says.
    pub(super) fn find(&self, node: u64, rights: Rights) -> Result<Found, SpreadError> {
        let region = self.memory.at(node).map_of(self.user, self.name, with_head(rights))?;
        let mut bytes = [0; HEAD_BYTES];
        let corrupt = SpreadError::Corrupt { node };
        match region.read(0, &mut bytes) {
            Err(MemoryError::Range { .. }) => return Err(corrupt),
            read => read?,
        }
        let head = SpreadHead::decode(&bytes).map_err(|_| corrupt)?;
        let part = head.directory.parts.get(head.number);
        let size = region.size()?;
        // Its identity is another one than that in the head once it has moved.
        let is_it = |part: &&SpreadPart| {
            let bytes = part.bytes.end - part.bytes.start;
            HEAD_BYTES as u64 + bytes == size
        };
        part.filter(is_it).ok_or(corrupt)?;
        Ok(Found { region, head })
    }
}
