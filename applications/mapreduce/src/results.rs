//! Results of tasks: each in a region of its worker's node, and read from there by those who need it.
//!
//! A map task's result begins with where each partition ends, a word each; then come the partitions. A
//! reduce task's is text. A region ends with its worker's process, so nothing is left of a worker that died
//! but what is done again.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::sync::Arc;

use heliostat::memory::{Memory, Region, Rights, Submission, Work};

use crate::board::{Stage, Task, DEAD, LEFT};
use crate::Failure;

/// Those of this worker, kept until the job has ended, and those of others that it has read from.
#[derive(Default)]
pub struct Results {
    own: Vec<Region>,
    mapped: HashMap<(u64, u64), Mapped>,
}

/// A result that is read from, perhaps more than once.
struct Mapped {
    region: Arc<Region>,
    /// Where its partitions end.
    ends: Vec<u64>,
}

/// A result that cannot be read: which task is to be done again, and why.
pub type Missing = (u64, Failure);

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

    /// Finds a result, which is on its worker's node and has so many partitions.
    fn find(
        &mut self,
        memory: &Memory,
        (job, task, of): (&str, u64, Task),
        workers: &[(u64, u64)],
        partitions: usize,
    ) -> Result<&Mapped, Failure> {
        match self.mapped.entry((task, of.attempt)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let node = workers.get(of.worker as usize).map_or(DEAD, |worker| worker.0);
                if of.stage != Stage::Done || node == DEAD || node == LEFT {
                    return Err("its worker is gone".into());
                }
                let region = memory.on(node).map(&name_of(job, task, of), Rights::READ)?;
                let mut head = vec![0; partitions * 8];
                region.read(0, &mut head)?;
                let ends = head.chunks_exact(8).map(|end| end.try_into().map(u64::from_le_bytes));
                let ends = ends.collect::<Result<Vec<u64>, _>>()?;
                let bytes = of.bytes.saturating_sub(head.len() as u64);
                if !ends.is_sorted() || ends.last().is_some_and(|last| *last > bytes) {
                    return Err("it is no result".into());
                }
                Ok(place.insert(Mapped { region: Arc::new(region), ends }))
            }
        }
    }

    /// Reads one partition of all map tasks' results, from all nodes at once.
    ///
    /// # Errors
    /// The first that is gone, or whose node is.
    pub fn partition(
        &mut self,
        memory: &Memory,
        job: &str,
        tasks: &[Task],
        workers: &[(u64, u64)],
        (partition, count): (usize, usize),
    ) -> Result<Vec<Vec<u8>>, Missing> {
        let mut reads = Vec::new();
        for (task, of) in (0..).zip(tasks) {
            let found = self.find(memory, (job, task, *of), workers, count);
            let Mapped { region, ends } = found.map_err(|error| (task, error))?;
            let from = if partition == 0 { 0 } else { ends[partition - 1] };
            let (offset, bytes) = ((count * 8) as u64 + from, ends[partition] - from);
            let work = Work::Read { offset, into: vec![0; bytes as usize] };
            reads.push(Submission::new(region, work));
        }
        let operations = memory.operations(reads.len().max(1));
        let numbers = operations.submit_all(reads).map_err(|not| (0, not.error.into()))?;
        let mut runs = vec![Vec::new(); numbers.len()];
        for _ in 0..numbers.len() {
            let completed = operations.wait(None).map_err(|error| (0, error.into()))?;
            let task = numbers.iter().position(|number| *number == completed.number).unwrap_or(0);
            completed.result.map_err(|error| (task as u64, error.into()))?;
            runs[task] = completed.bytes;
        }
        Ok(runs)
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
        let found = self.find(memory, what, workers, 0)?;
        let mut bytes = vec![0; what.2.bytes as usize];
        found.region.read(0, &mut bytes)?;
        Ok(bytes)
    }
}
