//! From the command line to a running daemon.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use heliostat_abi::place::{Surroundings, RUNTIME_VARIABLE, SOCKET_VARIABLE};
use heliostat_backend_lease::holder::Breaks;
use heliostat_control::config::Config;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::args::Args;
use crate::daemon::{Daemon, Parts};
use crate::home::{Home, HomeError};
use crate::services::TABLE;
use crate::{background, configuration, kernel, listener, logging, scrape, signals};

/// Runs the daemon until it ends.
pub fn run(args: &Args) -> ExitCode {
    if args.announce {
        kernel::close_inherited();
    }
    let config = match configuration::read(args.config.as_deref()) {
        Ok(config) => config,
        Err(message) => return fail(&message),
    };
    if args.check {
        println!("the configuration is right");
        return ExitCode::SUCCESS;
    }
    let here = surroundings(args);
    if args.background {
        return background::start(args, &here);
    }
    match serve(args, config, &here) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Taken(message)) => {
            eprintln!("heliostatd: {message}");
            ExitCode::SUCCESS
        }
        Err(Failure::Other(message)) => fail(&message),
    }
}

/// Why the daemon did not run.
enum Failure {
    /// Another one serves already; what the caller wanted is there.
    Taken(String),
    /// Anything else.
    Other(String),
}

fn serve(args: &Args, config: Config, here: &Surroundings) -> Result<(), Failure> {
    let other = |what: &str, error: &dyn std::fmt::Display| {
        Failure::Other(format!("cannot {what}: {error}"))
    };
    if args.announce {
        // Detached from the terminal and from the caller's folder. Already leading a session
        // is as good.
        let _ = rustix::process::setsid();
        std::env::set_current_dir("/").map_err(|error| other("leave the folder", &error))?;
    }
    // Before anybody can see that it is there, and send one.
    let signals = signals::Signals::catch().map_err(|error| other("catch signals", &error))?;
    let handed_over = listener::handed_over().map_err(|error| other("take the socket", &error))?;
    let (home, socket) = match handed_over {
        Some(socket) => (None, socket),
        None => {
            let home = Home::take(here).map_err(|error| match error {
                HomeError::Taken { .. } => Failure::Taken(error.to_string()),
                error => Failure::Other(error.to_string()),
            })?;
            let open_to_all = here.uid == 0;
            let socket = listener::bind(home.socket(), open_to_all).map_err(|error| {
                Failure::Other(format!("cannot listen on {}: {error}", home.socket().display()))
            })?;
            (Some(home), socket)
        }
    };
    // Before there are threads: each has to have the signals of breaks blocked.
    let breaks = Breaks::catch().map_err(|error| other("hear of broken leases", &error))?;
    let level = logging::start(config.log, args.log.as_deref())
        .map_err(|error| other("open the log", &error))?;
    raise_descriptor_limit();
    let path = here.socket_path();
    scrape::start(config.daemon.metrics_listen, &path)
        .map_err(|error| other("listen for metrics", &error))?;
    let parts = Parts {
        config,
        config_path: args.config.clone(),
        idle_exit_s: args.idle_exit,
        home,
        listener: socket,
        signals,
        breaks,
        level,
        table: TABLE,
    };
    let daemon = Daemon::new(parts).map_err(|error| other("start", &error))?;
    if args.announce {
        // The caller may have gone; the daemon serves all the same.
        let _ = writeln!(std::io::stdout(), "ready");
        release_standard_streams();
    }
    daemon.run().map_err(|error| other("go on", &error))
}

fn surroundings(args: &Args) -> Surroundings {
    let given = args.socket.clone().map(PathBuf::into_os_string);
    Surroundings {
        socket: given.or_else(|| std::env::var_os(SOCKET_VARIABLE)),
        runtime: std::env::var_os(RUNTIME_VARIABLE),
        uid: rustix::process::geteuid().as_raw(),
    }
}

/// A session costs two descriptors and a channel one; the usual soft limit of 1024 is too few.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it fails the old limit holds, and what does not fit is refused one by one.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Lets go of the caller's pipes, so that nobody waits for their end.
fn release_standard_streams() {
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("heliostatd: {message}");
    ExitCode::FAILURE
}
