//! Which segments a log has, and where it begins: the cleaner says so before it frees anything.
//!
//! ```text
//! clean    a mark on most nodes, a region named `log/NAME/from-16`; then 0 to 15 are freed, on all nodes
//! open     what nodes list, from the highest mark on
//! make     a segment that no node has was never there, or is cleaned: the marks tell which
//! ```
//!
//! A node that was silent or cut off keeps its copies while the others free theirs, and with those go the
//! heads which say that its copies do not count. So a name alone makes no segment.

use std::collections::BTreeSet;

use heliostat::control::Code;
use heliostat::memory::{Memory, MemoryError, Region, Rights};

use crate::LogError;

/// A mark's bytes: its name says everything.
const MARK_BYTES: u64 = 8;

/// The name of a segment's regions.
pub fn name_of(log: &str, number: u64) -> String {
    format!("log/{log}/{number}")
}

/// What a log is, to all of its programs.
pub struct Shape<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its nodes, in the same order for all of its programs.
    pub nodes: &'a [u64],
    /// Bytes of transactions in a segment.
    pub bytes: u64,
}

/// What the nodes that answer have of a log.
pub(crate) struct Extent {
    /// All segments of which somebody has something, also cleaned ones.
    numbers: BTreeSet<u64>,
    /// Where each of the marks says that the log begins.
    marks: BTreeSet<u64>,
    answers: usize,
}

impl Extent {
    /// Asks all nodes of a log for everything that it has.
    ///
    /// # Errors
    /// No node answers.
    pub(crate) fn of(memory: &Memory, shape: &Shape) -> Result<Extent, LogError> {
        let found = Extent::listed(memory, shape, &format!("log/{}/", shape.name));
        if found.answers == 0 {
            return Err(LogError::Lost);
        }
        Ok(found)
    }

    /// Asks for the marks alone, which are few; what it says of them counts where most nodes answer.
    ///
    /// # Errors
    /// `CutOff`: most do not.
    pub(crate) fn beginning(memory: &Memory, shape: &Shape) -> Result<u64, LogError> {
        let found = Extent::listed(memory, shape, &format!("log/{}/from-", shape.name));
        if found.answers * 2 <= shape.nodes.len() {
            return Err(LogError::CutOff);
        }
        Ok(found.begins())
    }

    fn listed(memory: &Memory, shape: &Shape, beginning: &str) -> Extent {
        let log = format!("log/{}/", shape.name);
        let (mut numbers, mut marks, mut answers) = (BTreeSet::new(), BTreeSet::new(), 0);
        for node in shape.nodes {
            let Ok(regions) = memory.on(*node).list(beginning) else { continue };
            answers += 1;
            let names = regions.iter().filter_map(|listed| listed.name.as_ref());
            for name in names.filter_map(|name| name.as_str().strip_prefix(&log)) {
                match name.strip_prefix("from-") {
                    Some(mark) => marks.extend(mark.parse::<u64>()),
                    None => numbers.extend(name.parse::<u64>()),
                }
            }
        }
        Extent { numbers, marks, answers }
    }

    /// The segment that the log begins with.
    pub(crate) fn begins(&self) -> u64 {
        self.marks.last().copied().unwrap_or(0)
    }

    /// The segments that the log has.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.numbers.range(self.begins()..).copied()
    }

    /// Has the log begin with a segment, its newest at most, and frees what is before it, the oldest first;
    /// returns how many segments the log does not have any more. What lies on a node that does not answer is
    /// nobody's from now on, and the next cleaner frees it.
    ///
    /// # Errors
    /// `CutOff`: most nodes do not answer, and nothing is done; a control plane says no.
    pub(crate) fn clean(
        &self,
        memory: &Memory,
        shape: &Shape,
        before: u64,
    ) -> Result<u64, LogError> {
        // Somebody may be appending to the newest one, and to none behind it.
        let newest = self.numbers.last().copied().unwrap_or(0);
        let begins = before.min(newest).max(self.begins());
        if begins > 0 {
            mark(memory, shape, begins)?;
        }
        for number in self.numbers.range(..begins) {
            free(memory, shape, &name_of(shape.name, *number))?;
        }
        for old in self.marks.range(..begins) {
            free(memory, shape, &mark_of(shape.name, *old))?;
        }
        Ok(self.segments().take_while(|number| *number < begins).count() as u64)
    }
}

fn mark_of(log: &str, begins: u64) -> String {
    format!("log/{log}/from-{begins}")
}

/// Says on most nodes with which segment the log begins, so that whoever asks most of them hears it.
fn mark(memory: &Memory, shape: &Shape, begins: u64) -> Result<(), LogError> {
    let name = mark_of(shape.name, begins);
    let has = |node: &&u64| {
        let memory = memory.on(**node);
        let made = memory.allocate(MARK_BYTES).name(&name).lasting().make();
        made.is_ok() || memory.map(&name, Rights::READ).is_ok()
    };
    if shape.nodes.iter().filter(has).count() * 2 <= shape.nodes.len() {
        return Err(LogError::CutOff);
    }
    Ok(())
}

/// Frees the regions of a name on all nodes of a log that answer, whether or not their copies count.
///
/// # Errors
/// A control plane says no.
pub(crate) fn free(memory: &Memory, shape: &Shape, name: &str) -> Result<(), LogError> {
    for node in shape.nodes {
        match memory.on(*node).map(name, Rights::ALL).and_then(Region::free) {
            // Another cleaner was here.
            Ok(()) | Err(MemoryError::Stale { .. }) => {}
            Err(error) if error.refusal() == Some(Code::NotFound) || is_lost(&error)? => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether an error means that a copy went with its node. Memory that is gone although its node lives is a
/// segment that was freed.
pub(crate) fn is_lost(error: &MemoryError) -> Result<bool, LogError> {
    match error {
        MemoryError::Stale { .. } => Err(LogError::Cleaned),
        MemoryError::Node { .. } | MemoryError::Unreachable { .. } | MemoryError::Gone { .. } => {
            Ok(true)
        }
        _ => Ok(false),
    }
}
