//! One question to the control plane and its answer.

use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Once;

use heliostat_abi::place::{FolderFault, Surroundings};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_base::packet::PacketSocket;
use heliostat_base::process::peer_credentials;
use heliostat_base::sys::Errno;
use heliostat_client::{exchange, session, ControlError};
use rustix::fs::{fcntl_get_seals, SealFlags};

use crate::args::ControlPlace;
use crate::place::{check_folder, surroundings};

/// How long an answer may take. Longer than a stub waits: a person would rather have it late.
const DEADLINE_MS: u64 = 5000;
/// Longest text believed: far more than a full control plane's status.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody serves the socket.
    NotRunning {
        /// The socket.
        socket: PathBuf,
        /// The system's answer.
        errno: Errno,
    },
    /// The socket's folder could have been prepared by somebody else.
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        fault: FolderFault,
    },
    /// Somebody else serves the socket.
    Stranger {
        /// The socket.
        socket: PathBuf,
        /// Who does.
        uid: u32,
    },
    /// There is no answer, or it is no.
    Control(ControlError),
    /// The answer is of the wrong kind.
    Unexpected(Box<Reply>),
    /// The text cannot be read.
    Text(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning { socket, errno } => write!(
                f,
                "no control plane on {} ({errno}); `heliostat run` starts one",
                socket.display()
            ),
            Self::Folder { path, fault } => {
                write!(f, "the folder {} is not safe: {fault}", path.display())
            }
            Self::Stranger { socket, uid } => write!(
                f,
                "user {uid} serves {}, neither you nor root; set HELIOSTAT_SOCKET",
                socket.display()
            ),
            Self::Control(ControlError::Broken(Errno(libc::EAGAIN))) => {
                write!(f, "the control plane did not answer within {DEADLINE_MS} ms")
            }
            Self::Control(error) => error.fmt(f),
            Self::Unexpected(reply) => write!(f, "unexpected answer: {reply:?}"),
            Self::Text(error) => write!(f, "cannot read the answer: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<ControlError> for ClientError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

/// Connects to the control plane and makes sure who it is.
pub fn connect(here: &Surroundings) -> Result<PacketSocket, ClientError> {
    check_folder(here).map_err(|(path, fault)| ClientError::Folder { path, fault })?;
    let socket = here.socket_path();
    let path = socket.to_string_lossy();
    let connection = PacketSocket::connect(&path, DEADLINE_MS)
        .map_err(|errno| ClientError::NotRunning { socket: socket.clone(), errno })?;
    let peer = peer_credentials(connection.fd()).map_err(ControlError::Broken)?;
    if peer.uid != here.uid && peer.uid != 0 {
        return Err(ClientError::Stranger { socket, uid: peer.uid });
    }
    Ok(connection)
}

/// Tells the stubs where the control plane is, once that is known to be one to be trusted.
pub fn open_session(place: &ControlPlace) -> Result<(), ClientError> {
    static TOLD: Once = Once::new();
    let here = surroundings(place);
    connect(&here)?;
    TOLD.call_once(|| {
        session::configure(here.socket_path().to_string_lossy().into_owned(), "heliostat".into());
    });
    Ok(())
}

/// Asks and returns the text of the answer; empty for an answer without one.
pub fn ask(here: &Surroundings, request: &Request) -> Result<String, ClientError> {
    ask_on(&connect(here)?, request)
}

/// Asks on a connection that may have been asked on before.
pub fn ask_on(connection: &PacketSocket, request: &Request) -> Result<String, ClientError> {
    let (reply, fds) = exchange(connection, request, &[], 1)?;
    match (reply, fds.first()) {
        (Reply::Done, _) => Ok(String::new()),
        (refusal @ Reply::Refused { .. }, _) => Err(ControlError::from(&refusal).into()),
        (Reply::Text { bytes }, Some(fd)) if bytes <= TEXT_BYTES_MAX => {
            read_text(fd, bytes as usize).map_err(ClientError::Text)
        }
        (reply, _) => Err(ClientError::Unexpected(Box::new(reply))),
    }
}

/// The text in a memory file. Root may ask a user's control plane, which is then no more than
/// another program: what it sends is memory that nobody can change or shorten, or is not read.
fn read_text(fd: &OwnedFd, bytes: usize) -> Result<String, String> {
    let wanted = SealFlags::SHRINK | SealFlags::WRITE;
    // First of all: only memory files have seals, and opening anything else might wait.
    match fcntl_get_seals(fd) {
        Ok(seals) if seals.contains(wanted) => {}
        _ => return Err("it is no sealed memory".to_owned()),
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = vec![0; bytes];
    file.read_exact_at(&mut text, 0).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|error| error.to_string())
}
