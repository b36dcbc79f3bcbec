//! Results of tasks: each in a region of its worker's node, and read from there by those who need it.
//!
//! A map task's result begins with where each partition ends, a word each; then come the partitions. A
//! reduce task's is text. A region ends with its worker's process, so nothing is left of a worker that died
//! but what is done again.

use std::collections::hash_map::Entry;
use std::collections::HashMap;

use heliostat::memory::{Memory, Region, Rights};

use crate::board::{Stage, Task, DEAD, LEFT};
use crate::Failure;

/// Those of this worker, kept until the job has ended, and those of others that it has read from.
#[derive(Default)]
pub struct Results {
    own: Vec<Region>,
    mapped: HashMap<(u64, u64), Region>,
}

/// The name that a try of a task gives its result.
fn name_of(job: &str, task: u64, of: Task) -> String {
    format!("mapreduce/{job}/{task}-{}-{}", of.attempt, of.worker)
}

impl Results {
    /// Puts a result into a region of this node; returns its bytes.
    ///
    /// # Errors
    /// The control plane gives no memory.
    pub fn put(
        &mut self,
        memory: &Memory,
        (job, task, of): (&str, u64, Task),
        (ends, bytes): (&[u64], &[u8]),
    ) -> Result<u64, Failure> {
        let all = (ends.len() * 8 + bytes.len()) as u64;
        // No region is empty.
        let region = memory.allocate(all.max(1)).name(&name_of(job, task, of)).make()?;
        let head: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        region.write(0, &head)?;
        region.write(head.len() as u64, bytes)?;
        self.own.push(region);
        Ok(all)
    }

    /// Returns the region of a result, which is on its worker's node.
    ///
    /// # Errors
    /// It is gone, or its node is.
    fn find(
        &mut self,
        memory: &Memory,
        (job, task, of): (&str, u64, Task),
        workers: &[(u64, u64)],
    ) -> Result<&Region, Failure> {
        match self.mapped.entry((task, of.attempt)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let node = workers.get(of.worker as usize).map_or(DEAD, |worker| worker.0);
                if of.stage != Stage::Done || node == DEAD || node == LEFT {
                    return Err(format!("task {task}: its worker is gone").into());
                }
                let region = memory.on(node).map(&name_of(job, task, of), Rights::READ)?;
                Ok(place.insert(region))
            }
        }
    }

    /// Reads one partition of a map task's result.
    ///
    /// # Errors
    /// As `find`; the result is none.
    pub fn partition(
        &mut self,
        memory: &Memory,
        (job, task, of): (&str, u64, Task),
        workers: &[(u64, u64)],
        (partition, count): (u64, u64),
    ) -> Result<Vec<u8>, Failure> {
        let region = self.find(memory, (job, task, of), workers)?;
        let mut head = vec![0; count as usize * 8];
        region.read(0, &mut head)?;
        let end = |n: u64| {
            let at = n as usize * 8;
            head[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
        };
        let from = if partition == 0 { 0 } else { end(partition - 1) };
        let bytes = end(partition).checked_sub(from).filter(|bytes| *bytes <= of.bytes);
        let mut run = vec![0; bytes.ok_or("a result is none")? as usize];
        region.read(head.len() as u64 + from, &mut run)?;
        Ok(run)
    }

    /// Reads all of a reduce task's result.
    ///
    /// # Errors
    /// As `find`.
    pub fn whole(
        &mut self,
        memory: &Memory,
        what: (&str, u64, Task),
        workers: &[(u64, u64)],
    ) -> Result<Vec<u8>, Failure> {
        let region = self.find(memory, what, workers)?;
        let mut bytes = vec![0; what.2.bytes as usize];
        region.read(0, &mut bytes)?;
        Ok(bytes)
    }
}
