//! Shows something to people on standard output, and why nothing was shown.

use std::fmt;
use std::io::Write;

use crate::client::ClientError;

/// Why nothing was shown.
#[derive(Debug)]
pub enum ShowError {
    /// There is no answer.
    Client(ClientError),
    /// The answer is no JSON.
    Json(serde_json::Error),
    /// The process that was asked about has no session, and why.
    NoSession {
        /// The process.
        pid: u32,
        /// Why.
        why: String,
    },
    /// There is no control plane to look at.
    NoPlace(String),
    /// Standard output takes no more.
    Output(std::io::Error),
}

impl fmt::Display for ShowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Json(error) => write!(f, "the answer is no JSON: {error}"),
            Self::NoSession { pid, why } => {
                // It may hold a path or a name that a program has chosen.
                let why = why.replace(char::is_control, "?");
                write!(f, "process {pid} has no session here: {why}")
            }
            Self::NoPlace(why) => f.write_str(why),
            Self::Output(error) => write!(f, "cannot print: {error}"),
        }
    }
}

impl std::error::Error for ShowError {}

impl From<ClientError> for ShowError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Prints; a reader that has gone (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), ShowError> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(ShowError::Output(error))
        }
        _ => Ok(()),
    }
}
