//! All names of a node, by service.

use heliostat_client::session;

use crate::listed::ListedNames;
use crate::lock::LockNames;
use crate::memory::RegionNames;
use crate::path::{NamePath, SERVICES, STATUS};
use crate::rpc::FunctionNames;
use crate::snapshot::VersionNames;
use crate::status::{told, Status};
use crate::store::AreaNames;
use crate::text::text;
use crate::{net, sessions, Entry, Found, NameFault};

/// The names of a node as one user sees them. Any threads may use it at once.
pub struct Names {
    status: Status,
    locks: ListedNames<LockNames>,
    memory: ListedNames<RegionNames>,
    functions: ListedNames<FunctionNames>,
    versions: VersionNames,
    areas: ListedNames<AreaNames>,
}

impl Names {
    /// The names that this process's user sees, at the control plane that `session::configure` has
    /// named. Asks nothing yet.
    pub fn new() -> Self {
        let own = rustix::process::geteuid().as_raw();
        Self {
            status: Status::default(),
            locks: ListedNames::new(own, LockNames::default()),
            memory: ListedNames::new(own, RegionNames::default()),
            functions: ListedNames::new(own, FunctionNames::default()),
            versions: VersionNames::new(own),
            areas: ListedNames::new(own, AreaNames::default()),
        }
    }

    /// Returns what a path stands for. Waits for the control plane half a second at most, and not at
    /// all for one that is gone.
    ///
    /// # Errors
    /// `NotFound`; `Broken` while there is no control plane, and it is needed; a service's own.
    pub fn look(&self, path: &NamePath) -> Result<Found, NameFault> {
        let Some((service, rest)) = path.split() else { return Ok(Found::Folder) };
        match service {
            STATUS if rest.is_empty() => Ok(text(None, told()? + "\n")),
            STATUS => Err(NameFault::NoFolder),
            "lock" => self.locks.look(rest),
            "memory" => self.memory.look(rest),
            "net" => net::look(&self.status, rest),
            "rpc" => self.functions.look(rest),
            "sessions" => sessions::look(&self.status, rest),
            "snapshot" => self.versions.look(&self.status, rest),
            "store" => self.areas.look(rest),
            _ => Err(NameFault::NotFound),
        }
    }

    /// Returns what lies in a folder, in order of names.
    ///
    /// # Errors
    /// `NoFolder`; as `look`.
    pub fn list(&self, path: &NamePath) -> Result<Vec<Entry>, NameFault> {
        let Some((service, rest)) = path.split() else { return Ok(services()) };
        match service {
            STATUS if rest.is_empty() => Err(NameFault::NoFolder),
            "lock" => self.locks.list(rest),
            "memory" => self.memory.list(rest),
            "net" => net::entries(&self.status, rest),
            "rpc" => self.functions.list(rest),
            "sessions" => sessions::entries(&self.status, rest),
            "snapshot" => self.versions.list(&self.status, rest),
            "store" => self.areas.list(rest),
            _ => Err(NameFault::NotFound),
        }
    }

    /// Whether a control plane answers now.
    pub fn is_served(&self) -> bool {
        session::check_alive();
        session::standing().is_ok()
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

fn services() -> Vec<Entry> {
    let entry = |name: &&str| Entry { name: (*name).to_owned(), is_folder: *name != STATUS };
    SERVICES.iter().map(entry).collect()
}
