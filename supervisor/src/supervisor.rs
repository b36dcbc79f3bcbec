//! What all calls of one sealed program share.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use heliostat_backend_seal::Listener;
use heliostat_control::policy::Policy;

use crate::behalf::Behalf;
use crate::births::Births;
use crate::control::ControlPlane;
use crate::filter::Fenced;
use crate::identity::Identities;
use crate::images::Images;
use crate::lookup::Lookups;
use crate::made::Made;
use crate::memory::MemoryGroup;
use crate::paths::{Roots, Sandbox};
use crate::proc::read_proc;
use crate::refused::Refused;
use crate::signals::{self, Coming};
use crate::tree;
use crate::uncharged::Uncharged;

/// Ancestors that are looked at before a process counts as a stranger.
const ANCESTORS_MAX: usize = 256;

/// The sealed program's surroundings.
pub struct Supervisor {
    /// Where its calls come in.
    pub listener: Listener,
    /// What it may do.
    pub policy: Policy,
    /// The granted part of the file tree.
    pub roots: Roots,
    /// What was refused.
    pub refused: Arc<Mutex<Refused>>,
    /// Names that it looked up.
    pub lookups: Lookups,
    /// Everything is granted, and taken down.
    pub is_traced: bool,
    /// Users that it may become, if any.
    pub identities: Option<Identities>,
    /// With whose ids its calls are answered, where it may become others.
    pub behalf: Option<Behalf>,
    /// When the program began.
    pub begun: SystemTime,
    /// Static programs, and what is done to their code.
    pub images: Images,
    /// The control plane, for its stub.
    pub control: ControlPlane,
    /// What the kernel fences, so that calls need not be judged here.
    pub fenced: Fenced,
    /// Sockets of the program's, where its descriptors cannot be copied.
    pub made: Option<Made>,
    /// Two processes share a table of descriptors or memory, or have done so, and neither waits.
    pub shares: AtomicBool,
    /// How many processes and threads there may be.
    pub births: Births,
    /// What of the kernel's memory counts for nobody, where memory is limited.
    pub uncharged: Uncharged,
    /// What limits their memory, where that is allowed.
    pub group: Option<MemoryGroup>,
    /// A sealed thread has asked on which cores another one may run: nobody restricts them from now
    /// on, not even for a moment.
    pub places_itself: AtomicBool,
    /// The file mode creation mask that all sealed processes began with.
    pub first_umask: u32,
    /// A sealed process has set its mask: they may differ from now on.
    pub sets_umask: AtomicBool,
    /// Says, the first time, that the program cannot become another user or group.
    pub tells_identity: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// This process, which all sealed ones descend from.
    pub own: i32,
}

impl Supervisor {
    /// The file mode creation mask of a thread's process. The kernel tells it only in a text of 50
    /// lines, which takes as long as making the file: it is asked for where masks have been set.
    pub fn umask_of(&self, thread: i32) -> u32 {
        if !self.sets_umask.load(Relaxed) {
            return self.first_umask;
        }
        let text = self.field(thread, "Umask:");
        text.and_then(|text| u32::from_str_radix(&text, 8).ok()).unwrap_or(0o022)
    }

    /// Whether a thread is its process's only one.
    pub fn is_alone(&self, thread: i32) -> bool {
        self.field(thread, "Threads:").is_some_and(|count| count == "1")
    }

    /// The supplementary groups of a thread, in rising order.
    pub fn groups_of(&self, thread: i32) -> Vec<u32> {
        let text = self.field(thread, "Groups:").unwrap_or_default();
        text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    }

    /// A line of /proc/THREAD/status (proc(5)).
    fn field(&self, thread: i32, name: &str) -> Option<String> {
        let status = read_proc(self.roots.proc(), &format!("{thread}/status"))?;
        let mut lines = status.split(|byte| *byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
        Some(std::str::from_utf8(line).ok()?.trim().to_owned())
    }

    /// Whether a thread has a signal to handle, and its process.
    pub fn coming(&self, thread: i32) -> (Coming, i32) {
        signals::coming(self.roots.proc(), thread)
    }

    /// Says that the program cannot become another user or group, if nobody has yet.
    pub fn tell_of_identity(&self) {
        let tell = self.tells_identity.lock().ok().and_then(|mut tell| tell.take());
        if let Some(tell) = tell {
            tell();
        }
    }
}

impl Sandbox for Supervisor {
    fn all(&self) -> Vec<i32> {
        tree::descendants().iter().map(|process| process.as_raw_nonzero().get()).collect()
    }

    /// The thread's own number if it is gone.
    fn process_of(&self, thread: i32) -> i32 {
        self.field(thread, "Tgid:").and_then(|text| text.parse().ok()).unwrap_or(thread)
    }

    fn holds(&self, process: i32) -> bool {
        let mut at = process;
        for _ in 0..ANCESTORS_MAX {
            match tree::parent_of(at) {
                Some(parent) if parent == self.own => return true,
                Some(0) | None => return false,
                Some(parent) => at = parent,
            }
        }
        false
    }
}
