//! Files: who has leased which, and which sessions delegate operations on them.

pub mod delegated;
pub mod lease;

use std::io;

use heliostat_control::config::Config;
use heliostat_server_loop::Border;
use heliostat_service_file::File;

use crate::mounts::Mounts;
use crate::shares;

use delegated::Delegated;
use lease::Leases;

/// What the daemon keeps of files.
pub struct LeasedFiles {
    /// Who holds what.
    pub grants: File,
    /// The kernel's leases.
    pub leases: Leases,
    /// Which file systems there are.
    pub mounts: Mounts,
    /// The server loops, once a session has asked for one.
    pub delegated: Option<Delegated>,
    /// From which size on payload goes around the cache.
    pub copies: Border,
}

impl LeasedFiles {
    /// Nothing is leased yet.
    ///
    /// # Errors
    /// The kernel does not say which file systems there are.
    pub fn new(config: &Config) -> io::Result<LeasedFiles> {
        Ok(LeasedFiles {
            grants: File::new(shares::files(config)),
            leases: Leases::default(),
            mounts: Mounts::read()?,
            delegated: None,
            copies: Border::find(config.delegated.copy_around_bytes),
        })
    }
}
