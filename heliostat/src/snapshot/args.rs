//! What the command line says of snapshots.

use clap::Subcommand;

use crate::args::Format;

/// What can be done with versions of live memory.
#[derive(Subcommand, Clone, Debug)]
pub enum SnapshotCommand {
    /// Show the named regions that you may see, and the newest version of each.
    List(Format),
}
