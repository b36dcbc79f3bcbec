//! `heliostat mount`: the names of a node as files of the machine.
//!
//! ```text
//! heliostat mount DIR         starts the server, and returns when the mount is there
//!   server (--foreground)     serves it until it is taken away, or a signal ends it
//!     guard (--guard)         takes it away if the server is killed
//! ```

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;

use heliostat_bind_fuse as fuse;
use heliostat_bind_fuse::MountError;
use heliostat_names::Names;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::names::MountArguments;
use crate::client::{open_session, ClientError};
use crate::ensure::{ensure, EnsureError};
use crate::place::surroundings;

/// What the server says once the mount is there.
const THERE: &str = "mounted";

/// Why nothing is mounted.
#[derive(Debug)]
enum MountFault {
    /// No control plane runs, and none could be started.
    Ensure(EnsureError),
    /// There is none to be trusted.
    Client(ClientError),
    /// The folder, and why not.
    Mount(PathBuf, MountError),
    /// A process could not be started, or the folder found.
    Process(io::Error),
    /// The server has said why.
    Said(String),
}

impl fmt::Display for MountFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ensure(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
            Self::Mount(folder, error) => write!(f, "{}: {error}", folder.display()),
            Self::Process(error) => write!(f, "cannot mount: {error}"),
            Self::Said(said) => f.write_str(said),
        }
    }
}

/// Does what the command line says.
pub fn run(arguments: &MountArguments) -> ExitCode {
    if arguments.guard {
        fuse::guard(io::stdin().lock(), &arguments.folder);
        return ExitCode::SUCCESS;
    }
    let done = match arguments.foreground {
        true => serve(arguments),
        false => begin(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(MountFault::Said(said)) => {
            eprintln!("{said}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder from the root on: the server does not stay where it was started.
fn folder(arguments: &MountArguments) -> Result<PathBuf, MountFault> {
    let given = &arguments.folder;
    let found = given.canonicalize().and_then(|path| match path.is_dir() {
        true => Ok(path),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    found.map_err(|error| MountFault::Mount(given.clone(), MountError::Folder(error)))
}

/// This command once more, for the same folder.
fn again(folder: &Path) -> Result<Command, MountFault> {
    let mut command = Command::new(std::env::current_exe().map_err(MountFault::Process)?);
    // It is no program under Heliostat, even where one has started it.
    command.arg("mount").env_remove("LD_PRELOAD").current_dir("/").process_group(0);
    command.arg(folder);
    Ok(command)
}

/// Starts the server, and returns once it has mounted.
fn begin(arguments: &MountArguments) -> Result<(), MountFault> {
    let mut command = again(&folder(arguments)?)?;
    command.args(["--foreground", "--tells"]);
    if arguments.allow_other {
        command.arg("--allow-other");
    }
    let here = surroundings(&arguments.place);
    if here.is_given() {
        let socket = std::path::absolute(here.socket_path()).map_err(MountFault::Process)?;
        command.arg("--socket").arg(socket);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().map_err(MountFault::Process)?;
    let mut line = String::new();
    if let Some(output) = server.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(MountFault::Process)?;
    }
    match line.trim() {
        THERE => Ok(()),
        _ => Err(MountFault::Said(said(server))),
    }
}

/// What a server that has ended said.
fn said(mut server: Child) -> String {
    let mut text = String::new();
    let read = server.stderr.take().map(|mut errors| errors.read_to_string(&mut text));
    let _ = server.wait();
    match read {
        Some(Ok(_)) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "heliostat: the server of the mount ended without a word".to_owned(),
    }
}

/// Mounts, and serves until the mount is taken away.
fn serve(arguments: &MountArguments) -> Result<(), MountFault> {
    let folder = folder(arguments)?;
    ensure(&surroundings(&arguments.place), None).map_err(MountFault::Ensure)?;
    open_session(&arguments.place).map_err(MountFault::Client)?;
    let failed = |error| MountFault::Mount(folder.clone(), error);
    let mounted = fuse::mount(&folder, arguments.allow_other).map_err(failed)?;
    // Its end of the pipe is held until this process ends, however that is.
    let guard = start_guard(&folder);
    let heard = guard.and_then(|guard| unmount_at_signals(&folder).map(|()| guard));
    let _guard = heard.inspect_err(|_| {
        let _ = fuse::unmount(&folder);
    })?;
    if arguments.tells {
        // Who waits for it may have gone; the mount is there all the same.
        let _ = writeln!(io::stdout(), "{THERE}");
    }
    fuse::serve(mounted, Arc::new(Names::new())).map_err(failed)
}

/// Starts the process that takes the mount away if this one is killed.
fn start_guard(folder: &Path) -> Result<Child, MountFault> {
    let mut command = again(folder)?;
    command.arg("--guard").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(MountFault::Process)
}

/// Takes the mount away, and ends, at the signals by which people and systems end commands. Files that
/// are open then get an error: nobody serves them any more.
fn unmount_at_signals(folder: &Path) -> Result<(), MountFault> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(MountFault::Process)?;
    let folder = folder.to_owned();
    let wait = move || {
        if signals.forever().next().is_some() {
            let _ = fuse::unmount(&folder);
            std::process::exit(0);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map_err(MountFault::Process)?;
    Ok(())
}
