//! What the command line says of logs.

use clap::{Args, Subcommand};

use super::Format;

/// What can be done with logs and queues, also while a program writes them.
#[derive(Subcommand, Clone, Debug)]
pub enum LogCommand {
    /// Show the entries, from the first that is wanted on.
    Cat(LogCatArguments),
    /// Show what the header says: where the log begins and ends, its size, its limits.
    Info(LogArguments),
    /// Read every entry, and search behind the end for what should be there.
    Verify(LogArguments),
}

/// Which log.
#[derive(Args, Clone, Debug)]
pub struct LogArguments {
    /// A file, a disk, or /store/NAME for an area.
    #[arg(value_name = "LOG")]
    pub log: String,
    #[command(flatten)]
    pub format: Format,
}

/// Which entries of it.
#[derive(Args, Clone, Debug)]
pub struct LogCatArguments {
    #[command(flatten)]
    pub which: LogArguments,
    /// Show only entries at this position and behind it.
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    pub from: u64,
    /// Show so many entries at most.
    #[arg(long, value_name = "COUNT")]
    pub count: Option<u64>,
    /// Print the payloads as they are, one behind the other, and nothing else.
    #[arg(long)]
    pub raw: bool,
    /// Wait for more at the end.
    #[arg(long)]
    pub follow: bool,
}
