//! Which areas there are.

use heliostat_abi::store::limits::AREAS_MAX;
use heliostat_abi::store::reply::NO_MORE;
use heliostat_abi::store::{ListedArea, StoreReply, StoreRequest};

use crate::ask::AskStore;
use crate::{Store, StoreError, OWN_USER};

impl Store {
    /// Returns the areas that this process's user may see and whose names begin so; with an empty
    /// beginning all of them. Those that come or go meanwhile may be among them or not.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn list(&self, beginning: &str) -> Result<Vec<ListedArea>, StoreError> {
        self.list_of(OWN_USER, beginning)
    }

    /// The same of one user's areas.
    ///
    /// # Errors
    /// As `list`.
    pub fn list_of(&self, user: u32, beginning: &str) -> Result<Vec<ListedArea>, StoreError> {
        let (mut found, mut from) = (Vec::new(), 0);
        while (from as usize) < AREAS_MAX {
            let asked = StoreRequest::List { user, from, beginning: beginning.to_owned() };
            let answered = self.shared.control.ask_store(&asked, &[])?;
            let (StoreReply::Listed { areas, next }, _) = answered else {
                return Err(StoreError::Corrupt);
            };
            found.extend(areas);
            if next == NO_MORE {
                break;
            }
            // Each answer goes on behind the last one, or this would not end.
            if next <= from {
                return Err(StoreError::Corrupt);
            }
            from = next;
        }
        Ok(found)
    }
}
