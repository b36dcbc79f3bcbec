//! `heliostat recover`: what a log of durable files has goes into the files; and the same before a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use heliostat_backend_durable::{
    self as durable, Boot, Opened, Outcome, PlaceError, What, LOG_BYTES,
};

use crate::args::RecoverArguments;
use crate::say::say;

const HOLDER_ENDS: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

/// Recovers the files, and says what became of each.
pub fn recover(arguments: &RecoverArguments) -> ExitCode {
    match recover_by(&arguments.log, arguments.force, arguments.drop) {
        Ok(outcome) => {
            tell(&outcome, true);
            let is_done = outcome.is_whole() || arguments.drop;
            ExitCode::from(u8::from(!is_done))
        }
        Err(why) => {
            say(format_args!("{}: {why}", arguments.log.display()));
            ExitCode::FAILURE
        }
    }
}

/// Opens it. A holder that was killed gives it back only when the kernel has ended what was under way.
fn open(log: &Path) -> Result<Opened, PlaceError> {
    let until = Instant::now() + HOLDER_ENDS;
    loop {
        match durable::open(log, None) {
            Err(error) if error.is_in_use() && Instant::now() < until => sleep(LOOK),
            opened => return opened,
        }
    }
}

fn recover_by(log: &Path, force: bool, drop: bool) -> Result<Outcome, String> {
    let opened = open(log).map_err(|error| error.to_string())?;
    let boot = Boot::now().map_err(|error| error.to_string())?;
    let outcome = durable::recover(&opened.log, &boot, force).map_err(|error| error.to_string())?;
    let log = &opened.log;
    let emptied = match drop {
        true => log.trim(log.end()).and_then(|()| log.checkpoint()),
        false => Ok(()),
    };
    emptied.and_then(|()| log.close()).map_err(|error| error.to_string())?;
    Ok(outcome)
}

/// Before a run: the log is there, and has nothing that its files have not. Returns its whole path.
///
/// # Errors
/// It cannot be made or read. What could not be put into its file is told, and the program does
/// without the log.
pub fn prepare(log: &Path, is_verbose: bool) -> Result<PathBuf, String> {
    let path = std::path::absolute(log).map_err(|error| error.to_string())?;
    let named = |error: String| format!("the log {}: {error}", path.display());
    if !path.exists() {
        durable::create(&path, LOG_BYTES).map_err(|error| named(error.to_string()))?;
        return Ok(path);
    }
    match open(&path) {
        Ok(opened) => {
            let boot = Boot::now().map_err(|error| named(error.to_string()))?;
            let outcome = durable::recover(&opened.log, &boot, false);
            let outcome = outcome.map_err(|error| named(error.to_string()))?;
            tell(&outcome, is_verbose);
            opened.log.close().map_err(|error| named(error.to_string()))?;
        }
        // Its holder has recovered it; this program's files are flushed themselves.
        Err(error) if error.is_in_use() => {
            if is_verbose {
                say(format_args!("the log {} is in use by another program", path.display()));
            }
        }
        Err(error) => return Err(named(error.to_string())),
    }
    Ok(path)
}

fn tell(outcome: &Outcome, all: bool) {
    for file in &outcome.files {
        let is_news = file.what.is_refused() || matches!(file.what, What::Restored { .. });
        if all || is_news {
            say(format_args!("{}: {}", file.path.display(), file.what));
        }
    }
    if !outcome.is_whole() {
        say(format_args!(
            "the log keeps what it has; `heliostat recover --force` writes it, `--drop` gives it up"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_backend_durable::FileOutcome;

    #[test]
    fn a_log_is_made_once_and_found_again_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        assert_eq!(prepare(&path, false), Ok(path.clone()));
        assert_eq!(std::fs::metadata(&path).map(|it| it.len()).ok(), Some(LOG_BYTES));
        assert_eq!(prepare(&path, false), Ok(path.clone()));
        assert_eq!(recover_by(&path, false, false), Ok(Outcome::default()));
        let other = folder.path().join("other");
        std::fs::write(&other, [7; 16384]).expect("written");
        assert!(prepare(&other, false).is_err_and(|why| why.contains("other")));
        assert!(recover_by(&folder.path().join("none"), false, false).is_err());
        let one = FileOutcome { path, what: What::Missing };
        assert!(!Outcome { files: vec![one] }.is_whole());
    }
}
