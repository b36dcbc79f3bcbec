//! The head of each part of a region that is spread over nodes: of what, and which part.
//!
//! ```text
//! 0  mark u64        8  state u64 (1 being made, 2 ready, 3 freed)      16 generation u64
//! 24 version u32, parts u32     32 bytes u64     40 number of this part u32, 0 u32     48 0 (16)
//! 64 for each part 32 bytes: node u64, region, first byte u64, bytes u64
//! 4096 the part's bytes
//! ```
//!
//! All parts have the same head but for their number and, for a moment, their state. The generation is
//! drawn by chance, so that a part of an earlier region of the same name is never taken for one of this,
//! also where its node has started anew and given the same identity again.

use std::ops::Range;

use crate::cluster::limits::NODE_MAX;
use crate::name::ObjectId;
use crate::wire::{Reader, WireError, Writer};

/// Bytes of a head; those of the part follow.
pub const HEAD_BYTES: usize = 4096;
/// Parts of one region: their entries fit into a head.
pub const PARTS_MAX: usize = 64;
/// Parts begin at multiples of this in the whole: no word and no page lies in two.
pub const PART_GRAIN: u64 = 4096;
/// Where the state is: a word that changes in one step.
pub const STATE_AT: u64 = 8;
/// What the names of parts end with.
pub const NAME_END: &str = ".spread";

const MARK: u64 = u64::from_le_bytes(*b"HSPREAD\0");
const VERSION: u32 = 1;
const PARTS_AT: usize = 64;
const PART_BYTES: usize = 32;
const _: () = assert!(PARTS_AT + PARTS_MAX * PART_BYTES <= HEAD_BYTES);

/// How far a region has come. It goes forward only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum SpreadState {
    /// Its maker is at it, or has died.
    Making = 1,
    /// It can be used.
    Ready = 2,
    /// Whoever meets it frees what is left.
    Freed = 3,
}

impl SpreadState {
    fn of(word: u64) -> Result<Self, WireError> {
        let all = [Self::Making, Self::Ready, Self::Freed];
        let found = all.into_iter().find(|it| *it as u64 == word);
        found.ok_or(WireError::Field { name: "state of a spread region", found: word })
    }
}

/// Where one part lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpreadPart {
    /// On which node; 0 without a cluster.
    pub node: u64,
    /// In which region there, behind its head.
    pub region: ObjectId,
    /// Which bytes of the whole.
    pub bytes: Range<u64>,
}

/// A head, but for its state and number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    /// Of this region, and of none before.
    pub generation: u64,
    /// In order, without gaps, each on a node of its own.
    pub parts: Vec<SpreadPart>,
}

/// A head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpreadHead {
    /// How far the region has come, as this part says.
    pub state: SpreadState,
    /// Which part it is.
    pub number: usize,
    /// The same in every part.
    pub directory: Directory,
}

impl Directory {
    /// Returns how many bytes the whole has.
    pub fn bytes(&self) -> u64 {
        self.parts.last().map_or(0, |last| last.bytes.end)
    }
}

impl SpreadHead {
    /// The bytes of a head. It has no more than [`PARTS_MAX`] parts.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let Directory { generation, parts } = &self.directory;
        let mut w = Writer::new(&mut bytes);
        w.u64(MARK).u64(self.state as u64).u64(*generation);
        w.u32(VERSION).u32(parts.len() as u32).u64(self.directory.bytes());
        w.u32(self.number as u32).u32(0).put(&[0; 16]);
        for part in parts.iter().take(PARTS_MAX) {
            part.region.encode(w.u64(part.node));
            w.u64(part.bytes.start).u64(part.bytes.end - part.bytes.start);
        }
        bytes
    }

    /// The head in foreign bytes.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Self, WireError> {
        let mut r = Reader::new(bytes);
        let (mark, state, generation) = (r.u64(), r.u64(), r.u64());
        field("mark of a spread region", mark, mark == MARK)?;
        let state = SpreadState::of(state)?;
        field("generation", generation, generation != 0)?;
        let (version, count, all) = (r.u32(), r.u32() as usize, r.u64());
        field("version", version.into(), version == VERSION)?;
        field("parts", count as u64, (1..=PARTS_MAX).contains(&count))?;
        let (number, rest) = (r.u32() as usize, r.u32());
        field("number", number as u64, number < count && rest == 0)?;
        if r.take::<16>() != [0; 16] {
            return Err(WireError::Reserved);
        }
        let mut parts: Vec<SpreadPart> = Vec::with_capacity(count);
        for _ in 0..count {
            let part = decode_part(&mut r, parts.last().map_or(0, |last| last.bytes.end))?;
            let is_new = parts.iter().all(|it| it.node != part.node);
            field("node", part.node, is_new)?;
            parts.push(part);
        }
        let directory = Directory { generation, parts };
        field("bytes", all, all == directory.bytes())?;
        Ok(Self { state, number, directory })
    }
}

/// The part that begins at `start`.
fn decode_part(r: &mut Reader<'_>, start: u64) -> Result<SpreadPart, WireError> {
    let (node, region, first, bytes) = (r.u64(), ObjectId::decode(r), r.u64(), r.u64());
    field("node", node, node <= NODE_MAX)?;
    field("first byte", first, first == start && start % PART_GRAIN == 0)?;
    let end = start.checked_add(bytes).filter(|_| bytes > 0);
    let end = end.ok_or(WireError::Field { name: "bytes of a part", found: bytes })?;
    Ok(SpreadPart { node, region, bytes: start..end })
}

fn field(name: &'static str, found: u64, is_so: bool) -> Result<(), WireError> {
    is_so.then_some(()).ok_or(WireError::Field { name, found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> SpreadHead {
        let part = |node, bytes| {
            let region = ObjectId { index: node as u32, generation: 7 };
            SpreadPart { node, region, bytes }
        };
        let parts = vec![part(3, 0..8192), part(1, 8192..12_288), part(2, 12_288..12_300)];
        let directory = Directory { generation: 5, parts };
        SpreadHead { state: SpreadState::Ready, number: 1, directory }
    }

    #[test]
    fn a_head_is_what_was_written() {
        assert_eq!(SpreadHead::decode(&head().encode()), Ok(head()));
        assert_eq!(head().directory.bytes(), 12_300);
    }

    #[test]
    fn what_does_not_fit_together_is_no_head() {
        // Mark, state, generation, version, count, whole, number, and of the second part node,
        // first byte and length.
        for (at, value) in [
            (0, 0),
            (8, 0),
            (8, 4),
            (16, 0),
            (24, 2),
            (28, 0),
            (28, 65),
            (28, 4),
            (32, 1),
            (40, 3),
            (44, 1),
            (63, 1),
            (96, 3),
            (98, 1),
            (112, 1),
            (121, 0),
        ] {
            let mut bytes = head().encode();
            bytes[at] = value;
            assert!(SpreadHead::decode(&bytes).is_err(), "{value} at {at}");
        }
    }

    #[test]
    fn a_part_that_has_no_end_is_none() {
        let mut bytes = head().encode();
        bytes[PARTS_AT + 2 * PART_BYTES + 24..][..8].fill(0xff);
        assert!(SpreadHead::decode(&bytes).is_err());
    }
}
