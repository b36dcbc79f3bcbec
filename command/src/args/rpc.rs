//! What the command line says of remote procedure calls.

use clap::{Args, Subcommand};

use super::Format;

/// What can be done with functions.
#[derive(Subcommand, Clone, Debug)]
pub enum RpcCommand {
    /// Show the functions that you may see.
    List(RpcListArguments),
}

/// Which functions to show.
#[derive(Args, Clone, Debug)]
pub struct RpcListArguments {
    /// What their names begin with.
    #[arg(value_name = "BEGINNING", default_value = "")]
    pub beginning: String,
    /// User that they belong to, by number, instead of all whose you may see.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// Node that serves them, by number, instead of this one.
    #[arg(long, value_name = "NODE", default_value_t = 0, hide_default_value = true)]
    pub node: u32,
    #[command(flatten)]
    pub format: Format,
}
