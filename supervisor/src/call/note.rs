//! What is taken down of a call: what it asked for, and what of it was refused.

use std::path::Path;

use heliostat_control::policy::record::Ask;
use heliostat_control::policy::Access;

use super::Call;
use crate::identity;
use crate::presence::is_there;

impl Call<'_> {
    /// Counts a path that is not granted, or not for that. What is not there is not refused
    /// either: programs look for much that is nowhere.
    pub fn note_path(&self, path: &Path, access: Access) {
        if !is_there(path) {
            return;
        }
        if let Ok(mut refused) = self.supervisor.refused.lock() {
            refused.path(self.number, path, access);
        }
    }

    /// Takes down that something was asked for, and counts it if it was refused.
    pub fn note_ask(&self, ask: Ask<'_>, granted: bool) {
        if let Ok(mut refused) = self.supervisor.refused.lock() {
            refused.ask(self.number, ask, granted);
        }
    }

    /// Takes down which users a traced program becomes.
    pub fn note_users(&self, users: bool, count: usize) {
        if !self.supervisor.is_traced || !users {
            return;
        }
        let ids = (0..count).map(|place| self.int(place) as u32);
        for name in ids.filter(|id| !matches!(id, 0 | &u32::MAX)).filter_map(identity::name_of) {
            if let Ok(mut refused) = self.supervisor.refused.lock() {
                refused.user(&name);
            }
        }
    }

    /// Counts that names are looked up by a program that is granted none.
    pub fn note_look_ups(&self) {
        if let Ok(mut refused) = self.supervisor.refused.lock() {
            refused.look_ups(self.number);
        }
    }

    /// Counts a call that is refused whatever its arguments.
    pub fn note_call(&self, why: &str) {
        if let Ok(mut refused) = self.supervisor.refused.lock() {
            refused.call(self.number, why);
        }
    }
}
