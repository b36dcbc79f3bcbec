//! What is wrong with a policy file: the file, the line, the key, and what to write instead.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::ConfigError;

/// A mistake in a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// The file, once [`in_file`](Self::in_file) named it.
    pub file: Option<PathBuf>,
    /// Where in it, and what is wrong.
    pub mistake: ConfigError,
}

impl PolicyError {
    /// The same mistake with the file's name.
    pub fn in_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }
}

impl From<ConfigError> for PolicyError {
    fn from(mistake: ConfigError) -> Self {
        Self { file: None, mistake }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}: {}", file.display(), self.mistake),
            None => self.mistake.fmt(f),
        }
    }
}

impl std::error::Error for PolicyError {}
