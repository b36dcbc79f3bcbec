//! What the command line of the daemon says.

use std::path::PathBuf;

use clap::Parser;

/// The control plane of Heliostat: names, rights, limits and grants for one node.
#[derive(Parser, Clone, Debug)]
#[command(name = "heliostatd", version)]
pub struct Args {
    /// Configuration file; without it the defaults hold.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Path of the control socket, instead of HELIOSTAT_SOCKET or the default.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// End after so many seconds without a connection; 0 is never.
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,
    /// Stay in the foreground (the default; for service managers and people who want to say so).
    #[arg(long, conflicts_with = "background")]
    pub foreground: bool,
    /// Start in the background, and return once the socket answers.
    #[arg(long)]
    pub background: bool,
    /// Write the log to this file instead of standard error.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The file or disk of the store, instead of the configuration's or that of HELIOSTAT_STORE.
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,
    /// Check the configuration, say what is wrong with it, and end.
    #[arg(long)]
    pub check: bool,
    /// Say "ready" on standard output once the socket answers.
    #[arg(long, hide = true)]
    pub announce: bool,
}
