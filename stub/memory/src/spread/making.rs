//! Making a region that is spread: every step can be the last one of a maker that dies.

use std::ops::Range;
use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_abi::memory::limits::ARENA_BYTES_MAX;
use heliostat_abi::memory::spread::{
    Directory, SpreadHead, SpreadPart, SpreadState, HEAD_BYTES, NAME_END, PARTS_MAX, PART_GRAIN,
    STATE_AT,
};
use heliostat_abi::memory::{MemoryName, Rights};
use heliostat_base::{call, clock};

use super::{Part, SpreadError, SpreadRegion};
use crate::{Memory, MemoryError, Region};

/// A region that is about to be spread over nodes.
#[must_use = "nothing is allocated before `make`"]
pub struct SpreadAllocation<'a> {
    memory: &'a Memory,
    bytes: u64,
    nodes: Vec<u64>,
    lasting: bool,
    name: Option<String>,
    others: Rights,
    first: Vec<u8>,
}

impl Memory {
    /// Begins to say what a region is to be whose bytes, all zero, are spread evenly over these nodes, in
    /// this order; [`SpreadAllocation::make`] makes it. Without a cluster node 0 is this one.
    pub fn spread(&self, bytes: u64, nodes: &[u64]) -> SpreadAllocation<'_> {
        let (nodes, others, first) = (nodes.to_vec(), Rights::NONE, Vec::new());
        SpreadAllocation { memory: self, bytes, nodes, lasting: false, name: None, others, first }
    }

    /// The same for regions of a part's node.
    pub(super) fn at(&self, node: u64) -> Memory {
        match node {
            0 => Memory { shared: self.shared.clone(), node: None },
            node => self.on(node),
        }
    }
}

impl SpreadAllocation<'_> {
    /// It gets this name, by which every node of the cluster finds it. Its parts are regions of this name
    /// and `.spread`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// It outlives this process, until it is freed.
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Other users who know its name may do this with it, unless the rules of a node say no.
    pub fn others(mut self, rights: Rights) -> Self {
        self.others = rights;
        self
    }

    /// It begins with these bytes for whoever finds it: they are written before it can be found.
    pub fn first(mut self, bytes: &[u8]) -> Self {
        self.first = bytes.to_vec();
        self
    }

    /// Makes it; the handle allows everything. What is left of a region of this name whose maker has
    /// died is freed before.
    ///
    /// # Errors
    /// `Taken`, `Unfinished`; `Nodes`; `Part` where a node has no room, says no, or is not joined.
    /// Nothing is left behind.
    pub fn make(self) -> Result<SpreadRegion, SpreadError> {
        let name = self.name.as_deref().map(part_name).transpose()?;
        let places = self.places()?;
        if let Some(whole) = &self.name {
            self.check_free(whole)?;
        }
        // Dropped if something fails, the parts end: they are leased.
        let region = self.allocate(places)?;
        region.write_heads()?;
        region.write(0, &self.first)?;
        if let Some(name) = &name {
            region.parts.iter().try_for_each(|part| self.rename(part, name))?;
        }
        for part in region.parts.iter().filter(|_| self.lasting) {
            part.do_with(|it| it.set_lasting(true)).inspect_err(|_| region.give_up())?;
        }
        region.say_ready().inspect_err(|_| region.give_up())?;
        Ok(region)
    }

    /// Where the parts are to lie.
    fn places(&self) -> Result<Vec<(u64, Range<u64>)>, SpreadError> {
        let (given, bytes) = (self.nodes.len(), self.bytes);
        let is_twice = |(at, node): (usize, &u64)| self.nodes[..at].contains(node);
        if given == 0 || given > PARTS_MAX || self.nodes.iter().enumerate().any(is_twice) {
            return Err(SpreadError::Nodes { given, most: PARTS_MAX });
        }
        let each = bytes.div_ceil(given as u64).div_ceil(PART_GRAIN).saturating_mul(PART_GRAIN);
        let most = ARENA_BYTES_MAX - HEAD_BYTES as u64;
        if bytes == 0 || each > most {
            let most = most.saturating_mul(given as u64);
            return Err(MemoryError::Size { bytes, least: 1, most }.into());
        }
        let ranges = (0..).map(|number| number * each..bytes.min((number + 1) * each));
        let places = self.nodes.iter().copied().zip(ranges);
        Ok(places.take_while(|(_, range)| range.start < bytes).collect())
    }

    /// Frees what is left of an earlier one, and refuses a name that another one has.
    fn check_free(&self, whole: &str) -> Result<(), SpreadError> {
        match self.memory.map_spread(whole, Rights::READ) {
            Ok(found) => {
                let node = found.parts.iter().find(|it| it.found.is_ok()).map_or(0, Part::node);
                Err(SpreadError::Taken { node })
            }
            Err(SpreadError::Memory(error)) if error.refusal() == Some(Code::NotFound) => Ok(()),
            Err(SpreadError::Corrupt { node }) => Err(SpreadError::Taken { node }),
            Err(error) => Err(error),
        }
    }

    fn allocate(&self, places: Vec<(u64, Range<u64>)>) -> Result<SpreadRegion, SpreadError> {
        let (mut parts, mut listed) = (Vec::new(), Vec::new());
        let here = self.memory.own_node()?;
        for (node, bytes) in places {
            let (start, end) = (bytes.start, bytes.end);
            let wanted = HEAD_BYTES as u64 + (end - start);
            let made = self.memory.at(node).allocate(wanted).others(self.others).make();
            let error = |why| SpreadError::Part { node, from: start, to: end, why };
            let made = made.map_err(error)?;
            listed.push(SpreadPart { node, region: made.id(), bytes: bytes.clone() });
            parts.push(Part { made_on: node, here, bytes, found: Ok(Arc::new(made)) });
        }
        let directory = Directory { generation: draw(), parts: listed };
        Ok(SpreadRegion { memory: self.memory.clone(), directory, parts })
    }

    fn rename(&self, part: &Part, name: &str) -> Result<(), SpreadError> {
        let named = part.do_with(|region| region.rename(Some(name), self.others));
        named.map_err(|error| match error {
            SpreadError::Part { node, why, .. } if why.refusal() == Some(Code::BadState) => {
                SpreadError::Taken { node }
            }
            other => other,
        })
    }
}

impl SpreadRegion {
    fn write_heads(&self) -> Result<(), SpreadError> {
        let directory = &self.directory;
        for (number, part) in self.parts.iter().enumerate() {
            let state = SpreadState::Making;
            let head = SpreadHead { state, number, directory: directory.clone() };
            part.do_with(|region| region.write(0, &head.encode()))?;
        }
        Ok(())
    }

    /// The first part is the last that says so.
    fn say_ready(&self) -> Result<(), SpreadError> {
        let ready = SpreadState::Ready as u64;
        let mut parts = self.parts.iter().rev();
        parts.try_for_each(|part| part.do_with(|it| it.swap(STATE_AT, ready)).map(drop))
    }

    /// Has lasting parts end with their handles again, as far as their nodes can be reached.
    fn give_up(&self) {
        for part in &self.parts {
            let _ = part.do_with(|region| region.swap(STATE_AT, SpreadState::Freed as u64));
            let _ = part.do_with(|region| region.set_lasting(false));
        }
    }
}

impl Part {
    pub(super) fn do_with<T>(
        &self,
        act: impl FnOnce(&Region) -> Result<T, MemoryError>,
    ) -> Result<T, SpreadError> {
        let done = self.found.as_ref().map_err(|why| *why).and_then(|region| act(region));
        done.map_err(|why| self.error(why))
    }
}

/// The name of the parts of a region.
pub(super) fn part_name(whole: &str) -> Result<String, SpreadError> {
    let checked = |text: &str| MemoryName::parse(text).map_err(MemoryError::Name);
    let name = format!("{}{NAME_END}", checked(whole)?.as_str());
    checked(&name)?;
    Ok(name)
}

/// A generation that no other region has.
fn draw() -> u64 {
    // Where the kernel draws none, the time of a clock that goes forward is one too.
    let mut bytes = clock::monotonic_ns().to_le_bytes();
    let _ = call::random(&mut bytes);
    u64::from_le_bytes(bytes).max(1)
}
