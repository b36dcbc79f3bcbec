//! Files and folders that programs have open, by the number that the kernel keeps.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use heliostat_names::{Bytes, Entry, NameFault};

/// Most that may be open at once: what the kernel lets a user have is below that.
const OPEN_MAX: usize = 1 << 20;

/// What is open.
#[derive(Clone)]
pub(crate) enum Open {
    /// A file.
    File(Arc<dyn Bytes>),
    /// A folder, as it was when it was opened.
    Folder(Arc<[Entry]>),
}

/// What is open, by number.
#[derive(Default)]
pub(crate) struct OpenFiles(RwLock<(u64, HashMap<u64, Open>)>);

impl OpenFiles {
    /// Adds one; its number.
    pub(crate) fn add(&self, open: Open) -> Result<u64, NameFault> {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if state.1.len() >= OPEN_MAX {
            return Err(NameFault::Full(format!("{OPEN_MAX} files are open")));
        }
        state.0 += 1;
        let number = state.0;
        state.1.insert(number, open);
        Ok(number)
    }

    /// The file of a number.
    pub(crate) fn file(&self, number: u64) -> Option<Arc<dyn Bytes>> {
        match self.found(number)? {
            Open::File(file) => Some(file),
            Open::Folder(_) => None,
        }
    }

    /// The folder of a number.
    pub(crate) fn folder(&self, number: u64) -> Option<Arc<[Entry]>> {
        match self.found(number)? {
            Open::Folder(entries) => Some(entries),
            Open::File(_) => None,
        }
    }

    /// Lets one go.
    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let gone = state.1.remove(&number);
        // Its end may ask the control plane.
        drop(state);
        drop(gone);
    }

    fn found(&self, number: u64) -> Option<Open> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.1.get(&number).cloned()
    }
}
