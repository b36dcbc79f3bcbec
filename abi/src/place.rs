//! Where the control plane is found: the one rule for daemon, command line and stub.
//!
//! Only the rule lies here, as a function of what the caller has read from its surroundings; who
//! reads the environment and looks at folders is the caller.
//!
//! ```text
//! HELIOSTAT_SOCKET set      that path, as given
//! root                      /run/heliostat/control.sock
//! XDG_RUNTIME_DIR set       $XDG_RUNTIME_DIR/heliostat/control.sock
//! otherwise                 /tmp/heliostat-UID/control.sock
//! ```

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Environment variable that names the socket; `heliostat run` sets it for its program.
pub const SOCKET_VARIABLE: &str = "HELIOSTAT_SOCKET";
/// Environment variable that tells the stub that its program is sealed, so that it spares the
/// supervisor questions. Nothing is fenced by it.
pub const SEALED_VARIABLE: &str = "HELIOSTAT_SEALED";
/// Environment variable that names the image of libc for a sealed program: made by the command line,
/// in the folder where everything else is that the stub reads.
pub const IMAGE_VARIABLE: &str = "HELIOSTAT_IMAGE";
/// Environment variable that has the stub make such an image at this path, and end.
pub const WRITE_IMAGE_VARIABLE: &str = "HELIOSTAT_WRITE_IMAGE";
/// Environment variable that makes the stub say once what it does; it then carries what was said, so
/// that programs further down say only what is different.
pub const VERBOSE_VARIABLE: &str = "HELIOSTAT_VERBOSE";
/// Environment variable that makes the stub end a program that would be native as a whole; gone when
/// the program begins.
pub const REQUIRE_VARIABLE: &str = "HELIOSTAT_REQUIRE";
/// Environment variable that names the command that examines libraries nobody has examined yet.
pub const EXAMINER_VARIABLE: &str = "HELIOSTAT_EXAMINER";
/// That command's first argument; the paths of the libraries follow.
pub const EXAMINE_COMMAND: &str = "examine";
/// Environment variable that the stub reads: 0 leaves every connection native.
pub const DIRECT_VARIABLE: &str = "HELIOSTAT_DIRECT";
/// Environment variable of the patterns of durable files, one a line.
pub const DURABLE_VARIABLE: &str = "HELIOSTAT_DURABLE";
/// What a pattern begins with there whose files are durable only if they are seen to be appended to.
pub const DETECT_PREFIX: &str = "detect:";
/// Environment variable of the log that flushes of durable files go to: an absolute path, or the area
/// of a store as `/store/NAME`.
pub const DURABLE_LOG_VARIABLE: &str = "HELIOSTAT_DURABLE_LOG";
/// Environment variable of the groups of calls for kernel cores, as `heliostat run --offload` takes
/// them (`offload::Request`).
pub const OFFLOAD_VARIABLE: &str = "HELIOSTAT_OFFLOAD";
/// Environment variable of the kernel cores that make those calls, as numbers with commas between.
pub const OFFLOAD_CORES_VARIABLE: &str = "HELIOSTAT_OFFLOAD_CORES";
/// Environment variable of what the program wants of the network service, as `heliostat run
/// --network-cores` tells it (`stream::carry::Carry`).
pub const NETWORK_VARIABLE: &str = "HELIOSTAT_NETWORK";
/// Environment variable that says that the stub's variables were put into an environment that had
/// been cleared: they are gone, with it, when the program begins.
pub const PUT_BACK_VARIABLE: &str = "HELIOSTAT_PUT_BACK";
/// Environment variable of the user's runtime folder.
pub const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";
/// The file or disk of the store, for a control plane whose configuration names none.
pub const STORE_VARIABLE: &str = "HELIOSTAT_STORE";
/// File name of the socket in the default folders.
pub const SOCKET_FILE: &str = "control.sock";

/// What decides where the socket lies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// Value of `SOCKET_VARIABLE`; empty counts as unset.
    pub socket: Option<OsString>,
    /// Value of `RUNTIME_VARIABLE`; empty counts as unset.
    pub runtime: Option<OsString>,
    /// Effective user.
    pub uid: u32,
}

impl Surroundings {
    /// Path of the control plane's socket.
    pub fn socket_path(&self) -> PathBuf {
        if let Some(given) = self.socket.as_ref().filter(|path| !path.is_empty()) {
            return PathBuf::from(given);
        }
        self.default_folder().join(SOCKET_FILE)
    }

    /// True when a person chose the path; its folder is then theirs to keep safe.
    pub fn is_given(&self) -> bool {
        self.socket.as_ref().is_some_and(|path| !path.is_empty())
    }

    fn default_folder(&self) -> PathBuf {
        if self.uid == 0 {
            return PathBuf::from("/run/heliostat");
        }
        match self.runtime.as_ref().filter(|path| !path.is_empty()) {
            Some(runtime) => Path::new(runtime).join("heliostat"),
            None => PathBuf::from(format!("/tmp/heliostat-{}", self.uid)),
        }
    }
}

/// What is known of a socket's folder without following a link (lstat).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderFacts {
    /// A real folder, not a link or a file.
    pub is_folder: bool,
    /// Its owner.
    pub owner: u32,
    /// Its permission bits.
    pub mode: u32,
}

/// Why a folder is no place for the control plane's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FolderFault {
    /// A link or a file stands there.
    NotAFolder,
    /// Somebody else owns it.
    Owner {
        /// The owner found.
        found: u32,
        /// The owner wanted.
        wanted: u32,
    },
    /// Somebody else may write into it.
    Mode {
        /// The permission bits found.
        found: u32,
        /// The permission bits that may be set at most.
        allowed: u32,
    },
}

impl fmt::Display for FolderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFolder => write!(f, "it is a link or a file; remove it"),
            Self::Owner { found, wanted } => {
                write!(f, "user {found} owns it, not {wanted}; remove it or set HELIOSTAT_SOCKET")
            }
            Self::Mode { found, allowed } => {
                write!(f, "its mode is {found:04o}, at most {allowed:04o} is safe; chmod it")
            }
        }
    }
}

impl std::error::Error for FolderFault {}

/// Permission bits of a folder that the control plane of `uid` makes: root's is for all users.
pub const fn folder_mode(uid: u32) -> u32 {
    if uid == 0 {
        0o755
    } else {
        0o700
    }
}

/// Whether a default folder is safe for the control plane of `uid`: nobody else can replace the
/// socket in it.
pub fn judge_folder(facts: FolderFacts, uid: u32) -> Result<(), FolderFault> {
    let allowed = folder_mode(uid);
    if !facts.is_folder {
        return Err(FolderFault::NotAFolder);
    }
    if facts.owner != uid {
        return Err(FolderFault::Owner { found: facts.owner, wanted: uid });
    }
    let found = facts.mode & 0o7777;
    if found & !allowed & 0o777 != 0 {
        return Err(FolderFault::Mode { found, allowed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(socket: &str, runtime: &str, uid: u32) -> String {
        let given = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
        let here = Surroundings { socket: given(socket), runtime: given(runtime), uid };
        here.socket_path().to_str().unwrap().to_owned()
    }

    #[test]
    fn the_four_rules_apply_in_order() {
        assert_eq!(path("/a/b", "/run/user/7", 7), "/a/b");
        assert_eq!(path("", "/run/user/0", 0), "/run/heliostat/control.sock");
        assert_eq!(path("", "/run/user/7", 7), "/run/user/7/heliostat/control.sock");
        assert_eq!(path("", "", 7), "/tmp/heliostat-7/control.sock");
    }

    #[test]
    fn a_folder_of_another_user_or_open_to_others_is_refused() {
        let good = FolderFacts { is_folder: true, owner: 7, mode: 0o700 };
        assert_eq!(judge_folder(good, 7), Ok(()));
        let foreign = FolderFacts { owner: 8, ..good };
        assert_eq!(judge_folder(foreign, 7), Err(FolderFault::Owner { found: 8, wanted: 7 }));
        let open = FolderFacts { mode: 0o1777, ..good };
        let fault = FolderFault::Mode { found: 0o1777, allowed: 0o700 };
        assert_eq!(judge_folder(open, 7), Err(fault));
        let link = FolderFacts { is_folder: false, ..good };
        assert_eq!(judge_folder(link, 7), Err(FolderFault::NotAFolder));
    }
}
