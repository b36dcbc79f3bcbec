//! Starting in the background: a second process that nobody has to wait for.
//!
//! The first process starts the second with itself as its program, waits for its one line
//! "ready", and ends; the second becomes a child of init, not of the program that wanted a
//! control plane, which therefore never sees a child it did not start.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use heliostat_abi::place::{Surroundings, SOCKET_VARIABLE};

use crate::args::Args;
use crate::home::beside;

/// Bytes of the log shown when the start failed.
const TAIL_BYTES: usize = 2000;

/// Starts the daemon in the background and reports how that went.
pub fn start(args: &Args, here: &Surroundings) -> ExitCode {
    // The second process works in another folder, so it gets every path in full.
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let socket = whole(&here.socket_path());
    let log = args.log.as_deref().map_or_else(|| beside(&socket, "log"), whole);
    let mut command = match std::env::current_exe() {
        Ok(program) => Command::new(program),
        Err(error) => return failed(&format!("cannot find its own program: {error}")),
    };
    command.arg("--announce").arg("--log").arg(&log);
    if here.is_given() {
        command.arg("--socket").arg(&socket).env_remove(SOCKET_VARIABLE);
    }
    // A default path is derived again there, so that its folder is checked as a default's is.
    if let Some(config) = &args.config {
        command.arg("--config").arg(whole(config));
    }
    if let Some(store) = &args.store {
        command.arg("--store").arg(whole(store));
    }
    if let Some(seconds) = args.idle_exit {
        command.arg("--idle-exit").arg(seconds.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => await_ready(child, &log),
        Err(error) => failed(&format!("cannot start a second process: {error}")),
    }
}

fn await_ready(mut child: std::process::Child, log: &Path) -> ExitCode {
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // A read error is the same as no line: the status below says what happened.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    if line.trim() == "ready" {
        return ExitCode::SUCCESS;
    }
    let said = child.wait_with_output();
    match said {
        // Another daemon serves the socket already: what was wanted is there.
        Ok(output) if output.status.success() => ExitCode::SUCCESS,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            failed(&format!("{}\n{}", said.trim(), tail(log)))
        }
        Err(error) => failed(&format!("cannot wait for the second process: {error}")),
    }
}

/// The last lines of the log, which may say more than the process did.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = text.len().saturating_sub(TAIL_BYTES);
    String::from_utf8_lossy(&text[from..]).trim().to_owned()
}

fn failed(why: &str) -> ExitCode {
    eprintln!("heliostatd: {}", why.trim());
    ExitCode::FAILURE
}
