//! Which regions there are.

use heliostat_abi::memory::limits::REGIONS_MAX;
use heliostat_abi::memory::reply::NO_MORE;
use heliostat_abi::memory::{Listed, MemoryReply, MemoryRequest};

use super::{Memory, MemoryError, OWN_USER};
use crate::ask::AskMemory;

impl Memory {
    /// Returns the regions that this process's user may see and whose names begin so; with an empty
    /// beginning all of them, also those without a name. Those that come or go meanwhile may be among
    /// them or not.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn list(&self, beginning: &str) -> Result<Vec<Listed>, MemoryError> {
        self.list_of(OWN_USER, beginning)
    }

    /// The same of one user's regions.
    ///
    /// # Errors
    /// As `list`.
    pub fn list_of(&self, user: u32, beginning: &str) -> Result<Vec<Listed>, MemoryError> {
        let (mut found, mut from) = (Vec::new(), 0);
        while (from as usize) < REGIONS_MAX {
            let asked = MemoryRequest::List { user, from, beginning: beginning.to_owned() };
            let answer = self.shared.control.ask_own(&self.placed(asked), &[]);
            let (MemoryReply::Listed { regions, next }, _) =
                answer.map_err(|error| self.of_node(error))?
            else {
                return Err(MemoryError::Corrupt);
            };
            found.extend(regions);
            if next == NO_MORE {
                break;
            }
            // Each answer goes on behind the last one, or this would not end.
            if next <= from {
                return Err(MemoryError::Corrupt);
            }
            from = next;
        }
        Ok(found)
    }
}
