//! From the command line to a running daemon.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;

use heliostat_abi::place::{Surroundings, RUNTIME_VARIABLE, SOCKET_VARIABLE, STORE_VARIABLE};
use heliostat_backend_lease::holder::Breaks;
use heliostat_control::config::Config;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::args::Args;
use crate::daemon::{Daemon, Parts};
use crate::home::{Home, HomeError};
use crate::services::cluster::ask_registry_once;
use crate::services::TABLE;
use crate::{background, configuration, kernel, listener, logging, recovery, scrape, signals};

/// Runs the daemon until it ends.
pub fn run(args: &Args) -> ExitCode {
    if args.announce {
        kernel::close_inherited();
    }
    let mut config = match configuration::read(args.config.as_deref()) {
        Ok(config) => config,
        Err(message) => return fail(&message),
    };
    config.store.path = store_path(args, config.store.path);
    if args.check {
        let asked = config.cluster.as_ref().map(ask_registry_once);
        if let Some(Err(message)) = asked {
            return fail(&message);
        }
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

/// Where the store lies: as the command line says, or the configuration, or the environment.
fn store_path(args: &Args, configured: Option<PathBuf>) -> Option<PathBuf> {
    // The folder is left later.
    let whole = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let from_environment = || std::env::var_os(STORE_VARIABLE).map(PathBuf::from);
    args.store.clone().or(configured).or_else(from_environment).map(whole)
}

/// Why the daemon did not run.
enum Failure {
    /// Another one serves already; what the caller wanted is there.
    Taken(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    /// What could not be done, and why.
    fn to<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> Failure {
        move |error| Failure::Other(format!("cannot {what}: {error}"))
    }
}

fn serve(args: &Args, config: Config, here: &Surroundings) -> Result<(), Failure> {
    if args.announce {
        // Detached from the terminal and from the caller's folder. Already leading a session
        // is as good.
        let _ = rustix::process::setsid();
        std::env::set_current_dir("/").map_err(Failure::to("leave the folder"))?;
    }
    // Before anybody can see that it is there, and send one.
    let signals = signals::Signals::catch().map_err(Failure::to("catch signals"))?;
    let (home, listener) = listen(here)?;
    // Before there are threads: each has to have the signals of breaks blocked.
    let breaks = Breaks::catch().map_err(Failure::to("hear of broken leases"))?;
    let level = logging::start(config.log, args.log.as_deref());
    let level = level.map_err(Failure::to("open the log"))?;
    raise_descriptor_limit();
    let scraped = scrape::start(config.daemon.metrics_listen, &here.socket_path());
    scraped.map_err(Failure::to("listen for metrics"))?;
    // Those in areas when the store is open.
    let named = config.durable.log.as_deref().filter(|path| !path.starts_with("/store"));
    named.into_iter().for_each(recovery::recover_file);
    let (config_path, idle_exit_s) = (args.config.clone(), args.idle_exit);
    let table = TABLE;
    let parts =
        Parts { config, config_path, idle_exit_s, home, listener, signals, breaks, level, table };
    let daemon = Daemon::new(parts).map_err(Failure::to("start"))?;
    if args.announce {
        // The caller may have gone; the daemon serves all the same.
        let _ = writeln!(std::io::stdout(), "ready");
        release_standard_streams();
    }
    daemon.run().map_err(Failure::to("go on"))
}

/// The socket that was handed over, or one at a place that is this daemon's from now on.
fn listen(here: &Surroundings) -> Result<(Option<Home>, OwnedFd), Failure> {
    let handed_over = listener::handed_over().map_err(Failure::to("take the socket"))?;
    if let Some(socket) = handed_over {
        return Ok((None, socket));
    }
    let home = Home::take(here).map_err(|error| match error {
        HomeError::Taken { .. } => Failure::Taken(error.to_string()),
        error => Failure::Other(error.to_string()),
    })?;
    let open_to_all = here.uid == 0;
    let socket = listener::bind(home.socket(), open_to_all).map_err(|error| {
        Failure::Other(format!("cannot listen on {}: {error}", home.socket().display()))
    })?;
    Ok((Some(home), socket))
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
