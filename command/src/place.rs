//! Which control plane this command means, and whether it can be trusted.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use heliostat_abi::place::{
    judge_folder, FolderFacts, FolderFault, Surroundings, RUNTIME_VARIABLE, SOCKET_VARIABLE,
};

use crate::args::{ControlOwner, ControlPlace};

/// What the environment says, with the command line's path first.
pub fn surroundings(place: &ControlPlace) -> Surroundings {
    let given = place.socket.clone().map(PathBuf::into_os_string);
    Surroundings {
        socket: given.or_else(|| std::env::var_os(SOCKET_VARIABLE)),
        runtime: std::env::var_os(RUNTIME_VARIABLE),
        uid: rustix::process::geteuid().as_raw(),
    }
}

/// Which control plane is meant. Root may look into every user's, revoke there and end it: its server
/// is then that user, or whose socket's file it is.
pub fn meant(whose: &ControlOwner) -> Result<Surroundings, String> {
    let mut here = surroundings(&whose.place);
    if let Some(name) = &whose.user {
        return of_user(user_number(name).ok_or_else(|| format!("there is no user {name}"))?);
    }
    if here.uid == 0 && here.is_given() {
        here.uid = std::fs::metadata(here.socket_path()).map_or(0, |found| found.uid());
    }
    Ok(here)
}

/// The control plane of a user at its default place. What that user's XDG_RUNTIME_DIR is only the
/// user's programs know; the usual value is tried, and then the place without one.
pub fn of_user(uid: u32) -> Result<Surroundings, String> {
    let usual = PathBuf::from(format!("/run/user/{uid}")).into_os_string();
    let places = [Some(usual), None].map(|runtime| Surroundings { socket: None, runtime, uid });
    let found = places.iter().find(|place| place.socket_path().exists());
    let last = &places[1];
    found.cloned().ok_or_else(|| {
        format!(
            "user {uid} has no control plane at a default place ({})",
            last.socket_path().display()
        )
    })
}

/// A user by number or by name, as /etc/passwd has it: users of a directory server by number.
fn user_number(name: &str) -> Option<u32> {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = |line: &str| -> Option<u32> {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    };
    name.parse().ok().or_else(|| known.lines().find_map(number))
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
