//! Judges names for the openers' threads, by the rules in force when a program asked.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::right::Right;
use heliostat_control::name::Name;
use heliostat_control::rights::Subject;
use heliostat_control::rules::{Decision, Rules};
use heliostat_server_file::Judge;
use heliostat_service_socket::{Confined, Within};
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::mounts::Mounts;
use crate::shown_file;

/// What names are judged by, for all programs.
pub struct NameRules {
    /// The rules in force.
    pub rules: Arc<Rules>,
    /// The openers' own list of mounts: the event loop does not wait for theirs.
    mounts: Arc<Mutex<Mounts>>,
}

impl NameRules {
    /// By these rules.
    ///
    /// # Errors
    /// The kernel does not say which file systems there are.
    pub fn new(rules: &Rules) -> std::io::Result<NameRules> {
        let mounts = Arc::new(Mutex::new(Mounts::read()?));
        Ok(NameRules { rules: Arc::new(rules.clone()), mounts })
    }

    /// Judges for one program, and within what its session is confined to.
    pub fn judge(&self, subject: &Subject, confined: Option<&Confined>) -> Box<dyn Judge> {
        let (rules, mounts) = (self.rules.clone(), self.mounts.clone());
        let confined = confined.filter(|list| list.is_closed()).cloned();
        Box::new(ByRules { subject: subject.clone(), rules, mounts, confined })
    }
}

struct ByRules {
    subject: Subject,
    rules: Arc<Rules>,
    mounts: Arc<Mutex<Mounts>>,
    confined: Option<Confined>,
}

impl Judge for ByRules {
    fn uid(&self) -> u32 {
        self.subject.uid
    }

    fn locate(&self, found: BorrowedFd<'_>) -> Result<(String, Stat), Errno> {
        // Not held while the file system is asked, which may keep whom it pleases.
        shown_file::locate(found, |mount| {
            self.mounts.lock().unwrap_or_else(PoisonError::into_inner).kind(mount)
        })
    }

    fn decide(&self, right: Right, path: &str, owner: u32) -> Result<(), Option<usize>> {
        let wanted = if right == Right::Write { Within::Write } else { Within::Read };
        if self.confined.as_ref().is_some_and(|list| !list.names(wanted, path)) {
            return Err(None);
        }
        let owner = if self.subject.uid == 0 { 0 } else { owner };
        match self.rules.decide(&self.subject, right, Name::File(path), owner) {
            decision if decision.is_allowed() => Ok(()),
            Decision::ByRule { place, .. } => Err(Some(place)),
            _ => Err(None),
        }
    }

    fn first_below(&self, directory: &str) -> Option<usize> {
        self.rules.first_below(directory)
    }
}
