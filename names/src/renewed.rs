//! A service's access in the session that stands: opened anew once the control plane is another.

use std::sync::{Mutex, PoisonError};

use heliostat_client::session;

use crate::NameFault;

/// What was opened, and in which session.
pub(crate) struct Renewed<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for Renewed<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Renewed<T> {
    /// Returns what was opened in the session that stands, or opens it. Waits for the control plane half
    /// a second at most; one that is gone is an error at once.
    pub(crate) fn current<E: Into<NameFault>>(
        &self,
        open: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, NameFault> {
        session::check_alive();
        let epoch = session::standing()?.epoch;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, opened)) = kept.as_ref().filter(|(of, _)| *of == epoch) {
            return Ok(opened.clone());
        }
        let opened = open().map_err(Into::into)?;
        *kept = Some((epoch, opened.clone()));
        Ok(opened)
    }
}
