//! What the command line says of cores.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;

/// How the machine's cores are parted.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CoresArguments {
    #[command(subcommand)]
    pub command: Option<CoresCommand>,
    #[command(flatten)]
    pub wanted: WantedCores,
    /// Try partitions on a command, several rounds by turns, and keep the best.
    #[arg(long, requires = "program", conflicts_with_all = ["kernel", "kernel_list", "interrupt", "interrupt_list"])]
    pub auto: bool,
    /// Measure what a system call costs that a kernel core makes, by stage (heliostat run --offload).
    #[arg(long, conflicts_with_all = ["auto", "kernel", "kernel_list", "interrupt", "interrupt_list"])]
    pub stages: bool,
    /// The kernel core for that; without it the last one.
    #[arg(long, value_name = "CORE", requires = "stages")]
    pub stage_core: Option<usize>,
    #[command(flatten)]
    pub trial: TrialArguments,
    #[command(flatten)]
    pub format: Format,
    /// The command that is measured.
    #[arg(last = true, value_name = "COMMAND")]
    pub program: Vec<OsString>,
}

/// What can be done besides.
#[derive(Subcommand, Clone, Debug)]
pub enum CoresCommand {
    /// Undo what was changed; also what a crash has left, without a control plane.
    Reset(Format),
}

/// Which cores are wanted for what.
#[derive(Args, Clone, Debug, Default)]
pub struct WantedCores {
    /// So many cores for server loops.
    #[arg(long, value_name = "COUNT", conflicts_with = "kernel_list")]
    pub kernel: Option<u32>,
    /// These cores for server loops, as 3,7 or 12-15.
    #[arg(long, value_name = "CORES")]
    pub kernel_list: Option<String>,
    /// So many other cores for interrupts.
    #[arg(long, value_name = "COUNT", conflicts_with = "interrupt_list")]
    pub interrupt: Option<u32>,
    /// These cores for interrupts; they may be server loops' as well.
    #[arg(long, value_name = "CORES")]
    pub interrupt_list: Option<String>,
    /// Side by side (the default).
    #[arg(long, conflicts_with = "spread")]
    pub packed: bool,
    /// As far apart as there is room.
    #[arg(long)]
    pub spread: bool,
}

impl WantedCores {
    /// Whether something is wanted.
    pub fn is_some(&self) -> bool {
        let counts = self.kernel.is_some() || self.interrupt.is_some();
        counts || self.kernel_list.is_some() || self.interrupt_list.is_some()
    }
}

/// How partitions are tried.
#[derive(Args, Clone, Debug)]
pub struct TrialArguments {
    /// Rounds of each partition.
    #[arg(long, value_name = "COUNT", default_value_t = 5, requires = "auto", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// What the command prints that counts, as a regular expression with the number in brackets;
    /// higher is better. Without it the time that the command takes counts.
    #[arg(long, value_name = "REGEX", requires = "auto")]
    pub figure: Option<String>,
    /// Where the plot is written (SVG).
    #[arg(long, value_name = "FILE", default_value = "heliostat-cores.svg", requires = "auto")]
    pub plot: PathBuf,
}
