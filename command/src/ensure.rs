//! Makes sure that a control plane runs: finds one, or starts one and waits for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heliostat_abi::place::{Surroundings, SOCKET_VARIABLE};

use crate::client::{self, ClientError};

/// Name of the daemon's program.
pub const DAEMON: &str = "heliostatd";
/// How long a start may take; it takes some milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);
/// Time between two looks at the socket of a daemon that another process is starting.
const PAUSE: Duration = Duration::from_millis(2);
/// A daemon that a program's start brought up ends when nobody has used it for so long.
const IDLE_EXIT_S: &str = "30";

/// Why no control plane runs.
#[derive(Debug)]
pub enum EnsureError {
    /// Its program is nowhere.
    NoProgram {
        /// Where it was looked for first.
        beside: PathBuf,
    },
    /// Its program does not run.
    Spawn(std::io::Error),
    /// It said what was wrong.
    Failed(String),
    /// It started but does not answer.
    Silent(ClientError),
    /// There is one that must not be used.
    Unsafe(ClientError),
}

impl fmt::Display for EnsureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram { beside } => {
                write!(f, "{DAEMON} is neither beside {} nor in PATH", beside.display())
            }
            Self::Spawn(error) => write!(f, "cannot start {DAEMON}: {error}"),
            Self::Failed(said) => write!(f, "{said}"),
            Self::Silent(error) => write!(f, "{DAEMON} was started, but {error}"),
            Self::Unsafe(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EnsureError {}

/// Returns once the socket accepts connections; true when this call started the daemon.
pub fn ensure(here: &Surroundings, config: Option<&Path>) -> Result<bool, EnsureError> {
    match client::connect(here) {
        Ok(_) => return Ok(false),
        Err(ClientError::NotRunning { .. }) => {}
        Err(error) => return Err(EnsureError::Unsafe(error)),
    }
    start(here, config)?;
    let deadline = Instant::now() + DEADLINE;
    loop {
        match client::connect(here) {
            Ok(_) => return Ok(true),
            Err(error) if Instant::now() > deadline => return Err(EnsureError::Silent(error)),
            // Another process won the start and its daemon is not there yet.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Starts the daemon in the background; it returns when it serves or has failed.
fn start(here: &Surroundings, config: Option<&Path>) -> Result<(), EnsureError> {
    let mut command = Command::new(find_daemon()?);
    command.arg("--background").args(["--idle-exit", IDLE_EXIT_S]);
    if here.is_given() {
        command.arg("--socket").arg(here.socket_path());
    } else {
        // A default path is the daemon's own to derive: it then also checks the folder.
        command.env_remove(SOCKET_VARIABLE);
    }
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    // The control plane is no program under Heliostat, even when a program that is starts it.
    command.env_remove("LD_PRELOAD");
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(EnsureError::Spawn)?;
    if output.status.success() {
        return Ok(());
    }
    Err(EnsureError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The daemon beside this program, else in PATH.
fn find_daemon() -> Result<PathBuf, EnsureError> {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.with_file_name(DAEMON);
    if beside.is_file() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(DAEMON));
    places.find(|place| place.is_file()).ok_or(EnsureError::NoProgram { beside: own })
}
