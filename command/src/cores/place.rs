//! Where things of cores lie, and this machine as the command line sees it.

use std::path::PathBuf;

use heliostat_abi::place::{Surroundings, EXAMINER_VARIABLE, SOCKET_VARIABLE};
use heliostat_backend_cores::{JournalFile, Marker, RealSystem};

/// The journal of the control plane that is meant: it is there while cores are parted.
pub fn journal_path(here: &Surroundings) -> PathBuf {
    beside(here, "cores")
}

/// What was measured last.
pub fn measured_path(here: &Surroundings) -> PathBuf {
    beside(here, "cores-measured")
}

fn beside(here: &Surroundings, extension: &str) -> PathBuf {
    let mut name = here.socket_path().into_os_string();
    name.push(".");
    name.push(extension);
    name.into()
}

/// This machine, with the programs of the control plane that is meant.
pub fn system(here: &Surroundings) -> RealSystem {
    let socket = here.socket_path();
    let whole = std::path::absolute(&socket).unwrap_or_else(|_| socket.clone());
    let values = vec![socket.into_os_string(), whole.into_os_string()];
    let marker = Marker { name: SOCKET_VARIABLE, values, besides: EXAMINER_VARIABLE };
    RealSystem::new(JournalFile::at(journal_path(here)), marker)
}
