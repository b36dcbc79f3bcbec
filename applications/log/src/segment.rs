//! A segment: one region on each of its nodes, which are a chain.
//!
//! ```text
//! 0   tail: slots << 40 | units of 8 bytes, reserved     first copy only
//! 8   nodes of the segment, a bit each, by their places in the log's list
//! 16  ready: all copies are there
//! 24  next: the nodes of the next segment; decided as a slot is
//! 32  lost: nodes whose copies do not count any more, a bit each
//! 64  slots: 0, GIVEN_UP, END, or units << 24 | unit of a transaction
//! ... units
//! ```

mod copies;

use std::sync::Arc;

use heliostat::memory::{Memory, MemoryError, Operations, Region, Rights, Submission, Work};

use crate::extent::{self, is_lost, Extent};
use crate::LogError;

pub use crate::extent::{name_of, Shape};
pub use copies::{answers, most_answer};

/// Transactions of a segment at most.
pub const SLOTS: u64 = 4096;
/// Nodes of a log at most: a bit each.
pub const NODES_MAX: usize = 32;
/// A slot that has no transaction, since nobody has committed one for too long.
pub const GIVEN_UP: u64 = 1;
/// Behind it the segment has no more slots.
pub const END: u64 = 2;

const UNIT: u64 = 8;
const TAIL: u64 = 0;
const NODES: u64 = 8;
const READY: u64 = 16;
const NEXT: u64 = 24;
const LOST: u64 = 32;
const SLOTS_AT: u64 = 64;
const DATA_AT: u64 = SLOTS_AT + SLOTS * 8;
const SLOT_SHIFT: u32 = 40;
const UNIT_BITS: u32 = 24;
const MASK_BITS: u64 = 1 << 63;

/// Where a transaction lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its slot.
    pub slot: u64,
    unit: u64,
}

/// The nodes of a segment in the order of its chain: each segment begins with another one.
fn chain(nodes: u64, number: u64) -> Vec<usize> {
    let mut chain: Vec<usize> = nodes_of(nodes).collect();
    let by = number as usize % chain.len().max(1);
    chain.rotate_left(by);
    chain
}

/// One copy.
struct Copy {
    region: Arc<Region>,
    node: usize,
}

/// A segment, as one process reaches it.
pub struct Segment {
    /// Which of the log.
    pub number: u64,
    copies: Vec<Copy>,
    /// A copy that it has, or had, cannot be reached.
    is_hurt: bool,
    /// Slots are reserved at the copy that is the first of all, and nowhere else.
    has_first: bool,
    bytes: u64,
    operations: Operations,
    memory: Memory,
    /// Those of the log.
    nodes: Vec<u64>,
}

/// A node is named by its place in the log's list, nodes by bits.
pub fn nodes_of(bits: u64) -> impl Iterator<Item = usize> {
    (0..NODES_MAX).filter(move |node| bits & 1 << node != 0)
}

impl Segment {
    /// Reaches a segment, on these nodes, and makes what is missing of it where nobody has finished that.
    ///
    /// # Errors
    /// `Lost`: no node that can be reached has it. `Cleaned`: the log begins behind it.
    pub fn open(
        memory: &Memory,
        shape: &Shape,
        number: u64,
        nodes: u64,
    ) -> Result<Segment, LogError> {
        let name = name_of(shape.name, number);
        let chain = chain(nodes, number);
        let find = |node: usize| match shape.nodes.get(node) {
            Some(node) => memory.on(*node).map(&name, Rights::ALL),
            None => Err(MemoryError::Corrupt),
        };
        let mut copies = found(chain.iter().map(|node| (*node, find(*node))));
        if !copies.iter().any(|copy| is_ready(&copy.region)) {
            // Nobody has written anything before all are there, so what is missing was never there.
            let make = |node: &usize| {
                let memory = memory.on(*shape.nodes.get(*node)?);
                let made = memory.allocate(DATA_AT + shape.bytes).name(&name).lasting().make();
                // Where another one was first it is there by now.
                made.ok().or_else(|| find(*node).ok()).map(|region| (*node, Ok(region)))
            };
            copies = found(chain.iter().filter_map(make));
            // Or all of it was there, and the cleaner came before this one: he has said so before he freed it.
            if number < Extent::beginning(memory, shape)? {
                extent::free(memory, shape, &name)?;
                return Err(LogError::Cleaned);
            }
            at_each(&mut copies, |region| region.swap(NODES, nodes))?;
            at_each(&mut copies, |region| region.swap(READY, 1))?;
        }
        let size = copies.first().ok_or(LogError::Lost)?.region.size()?;
        let bytes = size.checked_sub(DATA_AT).ok_or(LogError::Corrupt("a region is too short"))?;
        let (is_hurt, has_first) = (false, true);
        let (operations, nodes) = (memory.operations(NODES_MAX), shape.nodes.to_vec());
        let memory = memory.clone();
        let mut segment =
            Segment { number, copies, is_hurt, has_first, bytes, operations, memory, nodes };
        segment.leave_out(&chain)?;
        Ok(segment)
    }

    /// The nodes of a segment that one of its copies names.
    ///
    /// # Errors
    /// None can be reached.
    pub fn nodes_by_name(memory: &Memory, shape: &Shape, number: u64) -> Result<u64, LogError> {
        let name = name_of(shape.name, number);
        let of_node = |node: &u64| {
            let region = memory.on(*node).map(&name, Rights::ALL).ok()?;
            let nodes = region.fetch_add(NODES, 0).ok()?;
            (nodes != 0).then_some(nodes)
        };
        shape.nodes.iter().find_map(of_node).ok_or(LogError::Lost)
    }

    /// How many copies it has that can be reached.
    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// Bytes that a transaction may have.
    pub fn limit(&self) -> u64 {
        self.bytes.min((1 << UNIT_BITS) * UNIT)
    }

    /// Reserves a slot and a place for so many bytes, in one step; none where the segment has no more, or
    /// the copy where that is done has just been lost.
    ///
    /// # Errors
    /// `Cleaned`, `Lost`, or what memory says.
    pub fn reserve(&mut self, bytes: u64) -> Result<Option<Place>, LogError> {
        // What is appended in a segment that has lost a copy would be on too few nodes.
        if self.is_hurt {
            return Ok(None);
        }
        self.take_place(bytes.div_ceil(UNIT))
    }

    fn take_place(&mut self, units: u64) -> Result<Option<Place>, LogError> {
        let reserved = self.at_first(|region| region.fetch_add(TAIL, 1 << SLOT_SHIFT | units))?;
        let Some(reserved) = reserved else { return Ok(None) };
        let (slot, unit) = (reserved >> SLOT_SHIFT, reserved & ((1 << SLOT_SHIFT) - 1));
        if slot >= SLOTS {
            return Ok(None);
        }
        if (unit + units) * UNIT > self.bytes {
            // The first for whom there is no place: there is none for those behind it.
            self.decide(SLOTS_AT + slot * 8, END)?;
            return Ok(None);
        }
        Ok(Some(Place { slot, unit }))
    }

    /// Writes a transaction to its place on all copies, at once; false where one was lost.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn write(&mut self, place: Place, transaction: &[u8]) -> Result<bool, LogError> {
        let offset = DATA_AT + place.unit * UNIT;
        let work = |copy: &Copy| {
            let from = transaction.to_vec();
            Submission::new(&copy.region, Work::Write { offset, from })
        };
        let submissions = self.copies.iter().map(work).collect();
        let numbers = self.operations.submit_all(submissions).map_err(|not| not.error)?;
        let (mut lost, mut left) = (Vec::new(), numbers.len());
        while left > 0 {
            let completed = self.operations.wait(None)?;
            // One of a write that was given up in the middle is nobody's.
            let copy = numbers.iter().position(|number| *number == completed.number);
            let Some(copy) = copy else { continue };
            left -= 1;
            match completed.result {
                Ok(_) => {}
                Err(error) if is_lost(&error)? => lost.push(copy),
                Err(error) => return Err(error.into()),
            }
        }
        lost.sort_unstable();
        lost.iter().rev().try_for_each(|copy| self.lose(*copy))?;
        Ok(lost.is_empty())
    }

    /// Commits a transaction that was written; false where its slot was given up before.
    ///
    /// # Errors
    /// As `reserve`. Without one copy left the transaction may be seen, by who saw it before, or not.
    pub fn commit(&mut self, place: Place, bytes: u64) -> Result<bool, LogError> {
        let word = bytes.div_ceil(UNIT) << UNIT_BITS | place.unit;
        Ok(self.decide(SLOTS_AT + place.slot * 8, word)? == word)
    }

    /// Gives a slot up, unless somebody has decided it; returns what it is.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn give_up(&mut self, slot: u64) -> Result<u64, LogError> {
        self.decide(SLOTS_AT + slot * 8, GIVEN_UP)
    }

    /// Says which nodes the next segment has, unless somebody has; returns what was said.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn decide_next(&mut self, nodes: u64) -> Result<u64, LogError> {
        // No slot more is reserved from now on; whoever has one may commit it or finds it given up.
        self.take_place(self.bytes / UNIT + 1)?;
        Ok(self.decide(NEXT, nodes | MASK_BITS)? & !MASK_BITS)
    }

    /// Returns the nodes of the next segment, once that is decided.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn next_nodes(&mut self) -> Result<Option<u64>, LogError> {
        let word = self.at_last(|region| region.fetch_add(NEXT, 0))?;
        Ok((word != 0).then_some(word & !MASK_BITS))
    }

    /// Returns what a slot is, as readers see it.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn slot(&mut self, slot: u64) -> Result<u64, LogError> {
        self.at_last(|region| region.fetch_add(SLOTS_AT + slot * 8, 0))
    }

    /// Whether somebody has reserved a slot, or one behind it: else it is the end of the log.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn is_passed(&mut self, slot: u64) -> Result<bool, LogError> {
        if let Some(tail) = self.at_first(|region| region.fetch_add(TAIL, 0))? {
            return Ok(tail >> SLOT_SHIFT > slot);
        }
        // Without the first copy, what is there tells.
        let mut slots = vec![0; ((SLOTS - slot - 1) * 8) as usize];
        self.at_last(|region| region.read(SLOTS_AT + (slot + 1) * 8, &mut slots))?;
        Ok(self.next_nodes()?.is_some() || slots.iter().any(|byte| *byte != 0))
    }

    /// Reads the bytes of a transaction by what its slot is.
    ///
    /// # Errors
    /// As `reserve`; the slot is none of ours.
    pub fn read(&mut self, slot: u64) -> Result<Vec<u8>, LogError> {
        let (units, unit) = (slot >> UNIT_BITS, slot & ((1 << UNIT_BITS) - 1));
        if (unit + units) * UNIT > self.bytes {
            return Err(LogError::Corrupt("a slot leads out of its segment"));
        }
        let mut bytes = vec![0; (units * UNIT) as usize];
        self.at_last(|region| region.read(DATA_AT + unit * UNIT, &mut bytes))?;
        Ok(bytes)
    }

    /// Stores a word where there is none yet, on one copy after the other from the first on: what the first
    /// one says is what all will say. Returns it.
    fn decide(&mut self, offset: u64, wanted: u64) -> Result<u64, LogError> {
        let (mut decided, mut copy) = (wanted, 0);
        while copy < self.copies.len() {
            match self.copies[copy].region.compare_swap(offset, 0, decided) {
                Ok(before) => {
                    decided = if before == 0 { decided } else { before };
                    copy += 1;
                }
                Err(error) if is_lost(&error)? => self.lose(copy)?,
                Err(error) => return Err(error.into()),
            }
        }
        if self.copies.is_empty() {
            return Err(LogError::Lost);
        }
        Ok(decided)
    }

    fn at_first(
        &mut self,
        act: impl Fn(&Region) -> Result<u64, MemoryError>,
    ) -> Result<Option<u64>, LogError> {
        let first = self.copies.first().ok_or(LogError::Lost)?;
        if !self.has_first {
            return Ok(None);
        }
        match act(&first.region) {
            Ok(word) => Ok(Some(word)),
            Err(error) if is_lost(&error)? => {
                self.lose(0)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn at_last<T>(
        &mut self,
        mut act: impl FnMut(&Region) -> Result<T, MemoryError>,
    ) -> Result<T, LogError> {
        loop {
            let last = self.copies.last().ok_or(LogError::Lost)?;
            match act(&last.region) {
                Ok(done) => return Ok(done),
                Err(error) if is_lost(&error)? => self.lose(self.copies.len() - 1)?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn found(tried: impl Iterator<Item = (usize, Result<Region, MemoryError>)>) -> Vec<Copy> {
    tried.filter_map(|(node, region)| Some(Copy { region: Arc::new(region.ok()?), node })).collect()
}

/// Does something with each copy, and leaves those out that went with their nodes; returns what it gave.
fn at_each(
    copies: &mut Vec<Copy>,
    act: impl Fn(&Region) -> Result<u64, MemoryError>,
) -> Result<Vec<u64>, LogError> {
    let mut words = Vec::new();
    for copy in std::mem::take(copies) {
        match act(&copy.region) {
            Ok(word) => {
                words.push(word);
                copies.push(copy);
            }
            Err(error) if is_lost(&error)? => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(words)
}

fn is_ready(region: &Region) -> bool {
    region.fetch_add(READY, 0).is_ok_and(|word| word != 0)
}
