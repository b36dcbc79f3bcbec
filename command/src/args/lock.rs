//! What the command line says of locks.

use clap::{Args, Subcommand};

use super::Format;

/// What can be done with locks, semaphores and barriers.
#[derive(Subcommand, Clone, Debug)]
pub enum LockCommand {
    /// Show those that you may see: who has them open, holds them and waits.
    List(LockListArguments),
}

/// Which locks to show.
#[derive(Args, Clone, Debug)]
pub struct LockListArguments {
    /// What their names begin with.
    #[arg(value_name = "BEGINNING", default_value = "")]
    pub beginning: String,
    /// User that they belong to, by number, instead of all whose you may see.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// Node of the cluster whose locks are shown, by number, instead of this one's.
    #[arg(long, value_name = "NODE")]
    pub node: Option<u64>,
    #[command(flatten)]
    pub format: Format,
}
