//! A queue that has a name.

use std::ops::{Deref, DerefMut};

use heliostat_abi::session::record::Request;

use super::producer::Queue;
use crate::naming::{take_name, tell, Holding};
use crate::NamedError;

/// A queue that consumers find by its name, until this is dropped or the session ends.
pub struct NamedQueue {
    queue: Queue,
    held: Holding,
}

/// Gives a queue its name, among those of regions.
pub fn publish_as(name: &str, mut queue: Queue) -> Result<NamedQueue, NamedError> {
    let (held, door) = take_name(name, queue.descriptors())?;
    queue.door = Some(door);
    Ok(NamedQueue { queue, held })
}

impl NamedQueue {
    /// Its name, with what stands before it.
    pub fn name(&self) -> String {
        self.held.name.to_string()
    }

    /// Counts the producers of this name; 1 for the first.
    pub fn generation(&self) -> u64 {
        self.held.generation
    }
}

impl Deref for NamedQueue {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl DerefMut for NamedQueue {
    fn deref_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }
}

impl Drop for NamedQueue {
    fn drop(&mut self) {
        tell(self.held.epoch, &Request::Unpublish { region: self.held.id });
    }
}
