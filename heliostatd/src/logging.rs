//! The log: text or JSON lines, to standard error or to a file that cannot grow for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use heliostat_control::config::{Log, LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{reload, Registry};

/// Bytes after which the log file becomes `.old` and a new one begins.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Changes the level while the daemon runs.
pub struct LevelHandle(reload::Handle<LevelFilter, Registry>);

impl LevelHandle {
    /// From now on.
    pub fn set(&self, level: LogLevel) {
        // It fails only when the subscriber is gone, and then nobody logs.
        let _ = self.0.modify(|filter| *filter = filter_of(level));
    }
}

/// Starts logging; to standard error without a file.
pub fn start(log: Log, file: Option<&Path>) -> io::Result<LevelHandle> {
    let (filter, handle) = reload::Layer::new(filter_of(log.level));
    match file {
        None => install(filter, log.format, io::stderr),
        Some(path) => install(filter, log.format, Mutex::new(CappedFile::open(path)?)),
    }
    Ok(LevelHandle(handle))
}

fn install<W>(filter: reload::Layer<LevelFilter, Registry>, format: LogFormat, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    let base = tracing_subscriber::registry().with(filter);
    // A second subscriber in one process is refused; the first goes on.
    let _ = match format {
        LogFormat::Text => base.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => base.with(lines.json()).try_init(),
    };
}

fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// A file that is set aside when it is full; at most one old one is kept.
struct CappedFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl CappedFile {
    fn open(path: &Path) -> io::Result<CappedFile> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let bytes = file.metadata()?.len();
        Ok(CappedFile { path: path.to_owned(), file, bytes })
    }
}

impl Write for CappedFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes > FILE_BYTES_MAX {
            std::fs::rename(&self.path, crate::home::beside(&self.path, "old"))?;
            *self = CappedFile::open(&self.path)?;
        }
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_set_aside_once() {
        let folder = std::env::temp_dir().join(format!("heliostat-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let mut log = CappedFile::open(&path).unwrap();
        log.bytes = FILE_BYTES_MAX + 1;
        log.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(folder.join("log.old").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
