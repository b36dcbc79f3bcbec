//! Changes of an area: its size, what others may, its end.
//!
//! Bytes that somebody holds directly are not taken away. So who holds an area directly gives that up for a
//! change that takes some, makes it by a handle of the other way, and opens the area anew.

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::store::{AreaRights, StoreReply, StoreRequest, WayWanted};

use crate::area::Area;
use crate::ask::AskStore;
use crate::opened::Opened;
use crate::{Shared, StoreError};

impl Area {
    /// Gives the area another size, a multiple of its grain. Bytes that it gains are zero, and what it
    /// loses is zeroed. Devices that were made of it keep the size that they had: make new ones
    /// afterwards. To make it smaller there must be none in this process.
    ///
    /// # Errors
    /// `InUse`, the handle does not allow it, there is no room, somebody holds it directly, or another
    /// change is under way.
    pub fn resize(&mut self, bytes: u64) -> Result<(), StoreError> {
        if bytes < self.bytes() && self.opened.device.is_some() {
            return self.by_other_handle(|shared, handle| {
                resized(shared, &StoreRequest::Resize { handle, bytes }).map(drop)
            });
        }
        let asked = StoreRequest::Resize { handle: self.opened.is.handle, bytes };
        let bytes = resized(&self.opened.shared, &asked)?;
        if self.opened.is.bytes != bytes {
            self.reopen(bytes)?;
        }
        Ok(())
    }

    /// Says what other users may do with it from now on. Handles that they have stay.
    ///
    /// # Errors
    /// The handle does not allow it, or another change is under way.
    pub fn appoint(&self, others: AreaRights) -> Result<(), StoreError> {
        let handle = self.opened.is.handle;
        self.opened.shared.control.tell_store(&StoreRequest::Appoint { handle, others })
    }

    /// Says how fast it may be read and written, by all together; 0 is no limit. For the owner of the
    /// control plane and root.
    ///
    /// # Errors
    /// This user may not say so, or the handle does not allow it.
    pub fn set_rate(&self, bytes_per_second: u64) -> Result<(), StoreError> {
        let handle = self.opened.is.handle;
        let asked = StoreRequest::SetRate { handle, bytes_per_second };
        self.opened.shared.control.tell_store(&asked)
    }

    /// Ends the area, and all handles on it. Its bytes are zeroed before anybody gets them.
    ///
    /// # Errors
    /// The handle does not allow it, a device of the area is in use in this process, somebody holds it
    /// directly, or another change is under way. The area is then as before, and this handle given back.
    pub fn delete(mut self) -> Result<(), StoreError> {
        if self.opened.device.is_some() {
            let ended = |shared: &Shared, handle| {
                shared.control.tell_store(&StoreRequest::Delete { handle })
            };
            return self.change_by_other_handle(ended).map(drop);
        }
        let handle = self.opened.is.handle;
        self.opened.shared.control.tell_store(&StoreRequest::Delete { handle })
    }

    /// Gives the direct way up, makes a change, and opens the area again.
    fn by_other_handle(
        &mut self,
        change: impl FnOnce(&Shared, heliostat_abi::name::ObjectId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let changed = self.change_by_other_handle(change);
        let shared = self.opened.shared.clone();
        let again = Opened::ask(&shared, &self.place.another(self.place.way));
        match again {
            Ok(again) => self.opened = Arc::new(again),
            Err(error) => return changed.and(Err(error)),
        }
        changed
    }

    /// Makes a change by a handle of the other way, which the area has from then on.
    fn change_by_other_handle(
        &mut self,
        change: impl FnOnce(&Shared, heliostat_abi::name::ObjectId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let transfer = self.transfer.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(transfer.take());
        if Arc::strong_count(&self.opened) > 1 {
            return Err(StoreError::InUse);
        }
        let shared = self.opened.shared.clone();
        let other = Opened::ask(&shared, &self.place.another(WayWanted::Emulated))?;
        let handle = other.is.handle;
        // The direct one is given back here, descriptor and handle.
        self.opened = Arc::new(other);
        change(&shared, handle)
    }

    /// The area has another size now.
    fn reopen(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.transfer = Mutex::default();
        match Arc::get_mut(&mut self.opened) {
            Some(opened) => opened.is.bytes = bytes,
            // Devices keep what they had, and the handle with it.
            None => {
                let asked = self.place.another(self.place.way);
                self.opened = Arc::new(Opened::ask(&self.opened.shared.clone(), &asked)?);
            }
        }
        Ok(())
    }
}

/// Asks for another size: the one that the area has then.
fn resized(shared: &Shared, asked: &StoreRequest) -> Result<u64, StoreError> {
    match shared.control.ask_store(asked, &[])? {
        (StoreReply::Changed { bytes }, _) => Ok(bytes),
        _ => Err(StoreError::Corrupt),
    }
}
