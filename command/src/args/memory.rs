//! What the command line says of memory regions.

use clap::{Args, Subcommand};

use super::{ControlPlace, Format};

/// What can be done with memory regions.
#[derive(Subcommand, Clone, Debug)]
pub enum MemoryCommand {
    /// Show the regions that you may see, those without a name among them.
    List(MemoryListArguments),
    /// Show one region: whose it is, how long it lives, and by which path you would reach it.
    Inspect {
        #[command(flatten)]
        region: MemoryRegionArguments,
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// End a region: its name is free, and whoever has a handle on it is told that it is gone.
    Free(MemoryRegionArguments),
    /// Have a region's bytes lie elsewhere, in one piece. Programs that use it wait meanwhile.
    Move {
        #[command(flatten)]
        region: MemoryRegionArguments,
        /// Move it to this node, by number; programs that use it find it there.
        #[arg(long, value_name = "NODE")]
        to: Option<u64>,
    },
    /// Write a region's bytes to standard output.
    Cat(MemoryRegionArguments),
}

/// Which regions to show.
#[derive(Args, Clone, Debug)]
pub struct MemoryListArguments {
    /// What their names begin with.
    #[arg(value_name = "BEGINNING", default_value = "")]
    pub beginning: String,
    /// User that they belong to, by number, instead of all whose you may see.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// Node that they are on, by number, instead of this one.
    #[arg(long, value_name = "NODE")]
    pub node: Option<u64>,
    #[command(flatten)]
    pub format: Format,
}

/// A memory region.
#[derive(Args, Clone, Debug)]
pub struct MemoryRegionArguments {
    /// Its name, or @ and its identity, as `heliostat memory list` shows both.
    pub region: String,
    /// User that it belongs to, by number, instead of yourself.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// Node that it is on, by number, instead of this one.
    #[arg(long, value_name = "NODE")]
    pub node: Option<u64>,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}
