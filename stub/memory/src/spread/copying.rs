//! Copies between regions that are spread: segment by segment, where the bytes are if that can be.

use std::sync::Arc;

use super::{Segment, SpreadError, SpreadRegion};
use crate::Region;

/// Bytes that lie in one part on both sides.
struct Step<'a, 'b> {
    from: (&'a Arc<Region>, u64),
    into: (&'b Segment<'b>, u64),
    bytes: u64,
}

impl SpreadRegion {
    /// Copies bytes from an offset on to a place in this or another region, as memmove(3) does: they
    /// may overlap. Between two nodes they pass through this process.
    ///
    /// # Errors
    /// As `write`.
    pub fn copy_to(
        &self,
        offset: u64,
        into: &SpreadRegion,
        at: u64,
        bytes: u64,
    ) -> Result<(), SpreadError> {
        let (from, to) = (self.segments(offset, bytes)?, into.segments(at, bytes)?);
        let mut steps = steps(&from, &to);
        if self.generation() == into.generation() && at > offset {
            // What is written by one step is not to be read by a later one.
            steps.reverse();
        }
        for Step { from: (region, offset), into: (segment, at), bytes } in steps {
            let copied = region.copy_to(offset, segment.region, at, bytes);
            copied.map_err(|why| segment.part.error(why))?;
        }
        Ok(())
    }
}

fn steps<'a>(from: &'a [Segment<'_>], to: &'a [Segment<'_>]) -> Vec<Step<'a, 'a>> {
    let (mut from, mut to) = (from.iter(), to.iter());
    let (mut source, mut target) = (from.next().map(|it| (it, 0)), to.next().map(|it| (it, 0)));
    let mut steps = Vec::new();
    while let (Some((a, done)), Some((b, filled))) = (source, target) {
        let bytes = (a.bytes - done).min(b.bytes - filled);
        steps.push(Step { from: (a.region, a.at + done), into: (b, b.at + filled), bytes });
        source = if done + bytes < a.bytes { Some((a, done + bytes)) } else { next(&mut from) };
        target = if filled + bytes < b.bytes { Some((b, filled + bytes)) } else { next(&mut to) };
    }
    steps
}

fn next<'a>(all: &mut std::slice::Iter<'a, Segment<'a>>) -> Option<(&'a Segment<'a>, u64)> {
    all.next().map(|it| (it, 0))
}
