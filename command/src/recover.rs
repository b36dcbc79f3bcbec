//! `heliostat recover`: what a log of durable files has goes into the files; and the same before a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use heliostat_backend_durable::{self as durable, Boot, Opened, Outcome, What, LOG_BYTES};
use heliostat_backend_log::{Log, LogError};
use heliostat_stub_log::{Kind, Log as NamedLog, OpenError, Place, Why};
use heliostat_stub_store::{NotDone, StoreError, Why as NotYet};

use crate::args::{ControlPlace, RecoverArguments};
use crate::client::open_session;
use crate::say::say;

const HOLDER_ENDS: Duration = Duration::from_millis(500);
/// Whoever recovers a log is waited for longer: its files are not what they will be.
const RECOVERED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// An open log, where it lies.
enum OpenLog {
    File(Opened),
    Area(NamedLog),
}

/// Why it is not open.
enum NotOpen {
    InUse,
    Missing,
    Other(String),
}

/// Recovers the files, and says what became of each.
pub fn recover(arguments: &RecoverArguments) -> ExitCode {
    match recover_by(arguments) {
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

fn recover_by(arguments: &RecoverArguments) -> Result<Outcome, String> {
    let opened = open(&meant(&arguments.log), &arguments.place).map_err(NotOpen::text)?;
    let boot = Boot::now().map_err(|error| error.to_string())?;
    let log = opened.log();
    let outcome = durable::recover(log, &boot, arguments.force).map_err(|it| it.to_string())?;
    let emptied = match arguments.drop {
        true => log.trim(log.end()).and_then(|()| log.checkpoint()),
        false => Ok(()),
    };
    emptied.and_then(|()| opened.close()).map_err(|error| error.to_string())?;
    Ok(outcome)
}

/// Before a run: the log is there, and has nothing that its files have not. Returns its whole path, or
/// the name of its area.
///
/// # Errors
/// It cannot be made or read. What could not be put into its file is told, and the program does
/// without the log.
pub fn prepare(log: &Path, control: &ControlPlace, is_verbose: bool) -> Result<PathBuf, String> {
    let place = meant(log);
    let named = |error: String| format!("the log {place}: {error}");
    let whole = match &place {
        Place::File(path) => std::path::absolute(path).map_err(|error| error.to_string())?,
        Place::Area(_) => log.to_owned(),
    };
    match open(&place, control) {
        Ok(opened) => {
            let boot = Boot::now().map_err(|error| named(error.to_string()))?;
            let outcome = durable::recover(opened.log(), &boot, false);
            let outcome = outcome.map_err(|error| named(error.to_string()))?;
            tell(&outcome, is_verbose);
            opened.close().map_err(|error| named(error.to_string()))?;
        }
        Err(NotOpen::Missing) => make(&place).map_err(named)?,
        // Its holder has recovered it; this program's files are flushed themselves.
        Err(NotOpen::InUse) => {
            if is_verbose {
                say(format_args!("the log {place} is in use by another program"));
            }
        }
        Err(NotOpen::Other(why)) => return Err(named(why)),
    }
    Ok(whole)
}

fn meant(log: &Path) -> Place {
    log.to_str().map_or_else(|| Place::from(log), Place::from)
}

fn make(place: &Place) -> Result<(), String> {
    match place {
        Place::File(path) => match durable::create(path, LOG_BYTES) {
            // By another program that was started with it: a new log has nothing to recover.
            Err(error) if error.is_taken() => Ok(()),
            made => made.map_err(|error| error.to_string()),
        },
        Place::Area(_) => {
            let made = NamedLog::create(place, LOG_BYTES).map_err(|error| error.why.to_string())?;
            made.without_thread().close().map_err(|error| error.to_string())
        }
    }
}

/// Opens it. A holder that was killed gives it back only when the kernel has ended what was under way,
/// and one that recovers it is waited for.
fn open(place: &Place, control: &ControlPlace) -> Result<OpenLog, NotOpen> {
    if let Place::Area(_) = place {
        open_session(control).map_err(|error| NotOpen::Other(error.to_string()))?;
    }
    let begun = Instant::now();
    loop {
        let (opened, is_recovered) = match place {
            Place::File(path) => open_file(path),
            Place::Area(_) => open_area(place),
        };
        let limit = if is_recovered { RECOVERED } else { HOLDER_ENDS };
        let is_early = begun.elapsed() < limit;
        match opened {
            Err(NotOpen::InUse) if is_early => sleep(LOOK),
            Err(NotOpen::InUse) if is_recovered => {
                return Err(NotOpen::Other("somebody recovers it, and takes long".into()));
            }
            opened => return opened,
        }
    }
}

/// The log in a file, or whether somebody recovers it.
fn open_file(path: &Path) -> (Result<OpenLog, NotOpen>, bool) {
    if !path.exists() {
        return (Err(NotOpen::Missing), false);
    }
    let opened = durable::open_to_recover(path).map(OpenLog::File).map_err(|error| match error {
        error if error.is_in_use() => NotOpen::InUse,
        error => NotOpen::Other(error.to_string()),
    });
    let is_recovered = opened.is_err() && durable::is_being_recovered(path);
    (opened, is_recovered)
}

/// The same of an area: the control plane lets nobody write it who comes while it is recovered, or
/// before the store is open.
fn open_area(place: &Place) -> (Result<OpenLog, NotOpen>, bool) {
    let error = match NamedLog::open(place) {
        Ok(log) => return (Ok(OpenLog::Area(log.without_thread())), false),
        Err(error) => error,
    };
    let is_waited_for = is_not_yet(&error);
    let why = match error.kind() {
        _ if is_waited_for => NotOpen::InUse,
        Kind::InUse => NotOpen::InUse,
        // None of that name, or one that was made for a log and has none yet.
        Kind::NotFound | Kind::Foreign => NotOpen::Missing,
        _ => NotOpen::Other(error.why.to_string()),
    };
    (Err(why), is_waited_for)
}

fn is_not_yet(error: &OpenError) -> bool {
    let Why::Store(why) = &error.why else { return false };
    matches!(&**why, StoreError::NotDone(NotDone { why: NotYet::Busy | NotYet::Opening, .. }))
}

impl OpenLog {
    fn log(&self) -> &Log {
        match self {
            Self::File(opened) => &opened.log,
            Self::Area(log) => log,
        }
    }

    fn close(self) -> Result<(), LogError> {
        match self {
            Self::File(opened) => opened.log.close(),
            Self::Area(log) => log.close(),
        }
    }
}

impl NotOpen {
    fn text(self) -> String {
        match self {
            Self::InUse => "another program uses it".to_owned(),
            Self::Missing => "there is no log".to_owned(),
            Self::Other(why) => why,
        }
    }
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

    fn nowhere() -> ControlPlace {
        ControlPlace { socket: None }
    }

    #[test]
    fn a_log_is_made_once_and_found_again_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let prepare = |path: &Path| prepare(path, &nowhere(), false);
        let recover_by = |log: &Path| {
            let (place, log) = (nowhere(), log.to_owned());
            recover_by(&RecoverArguments { place, log, force: false, drop: false })
        };
        assert_eq!(prepare(&path), Ok(path.clone()));
        assert_eq!(std::fs::metadata(&path).map(|it| it.len()).ok(), Some(LOG_BYTES));
        assert_eq!(prepare(&path), Ok(path.clone()));
        assert_eq!(recover_by(&path), Ok(Outcome::default()));
        let other = folder.path().join("other");
        std::fs::write(&other, [7; 16384]).expect("written");
        assert!(prepare(&other).is_err_and(|why| why.contains("other")));
        assert!(recover_by(&folder.path().join("none")).is_err());
        let one = FileOutcome { path, what: What::Missing };
        assert!(!Outcome { files: vec![one] }.is_whole());
    }

    #[test]
    fn who_comes_while_a_log_is_recovered_waits_for_that_to_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        durable::create(&path, 1 << 20).expect("made");
        let recovering = durable::open_to_recover(&path).expect("opened");
        assert!(durable::is_being_recovered(&path));
        let ends = std::thread::spawn(move || {
            sleep(2 * HOLDER_ENDS);
            let ended = Instant::now();
            drop(recovering);
            ended
        });
        assert!(open(&Place::from(path.as_path()), &nowhere()).is_ok());
        assert!(Instant::now() > ends.join().expect("ended"));
        assert!(!durable::is_being_recovered(&path));
        let held = durable::open(&path, None).expect("opened");
        assert!(matches!(open(&Place::from(path.as_path()), &nowhere()), Err(NotOpen::InUse)));
        drop(held);
    }
}
