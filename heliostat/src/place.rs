//! Which control plane this command means, and whether it can be trusted.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use heliostat_abi::place::{
    judge_folder, FolderFacts, FolderFault, Surroundings, RUNTIME_VARIABLE, SOCKET_VARIABLE,
};

use crate::args::Place;

/// What the environment says, with the command line's path first.
pub fn surroundings(place: &Place) -> Surroundings {
    let given = place.socket.clone().map(PathBuf::into_os_string);
    Surroundings {
        socket: given.or_else(|| std::env::var_os(SOCKET_VARIABLE)),
        runtime: std::env::var_os(RUNTIME_VARIABLE),
        uid: rustix::process::geteuid().as_raw(),
    }
}

/// Whether the folder of a default socket is one that nobody else could have prepared. A folder
/// that is not there is fine: the daemon makes it.
pub fn check_folder(here: &Surroundings) -> Result<(), (PathBuf, FolderFault)> {
    let socket = here.socket_path();
    let Some(folder) = socket.parent().filter(|_| !here.is_given()) else { return Ok(()) };
    let Ok(found) = std::fs::symlink_metadata(folder) else { return Ok(()) };
    let facts =
        FolderFacts { is_folder: found.is_dir(), owner: found.uid(), mode: found.mode() & 0o7777 };
    judge_folder(facts, here.uid).map_err(|fault| (folder.to_owned(), fault))
}
