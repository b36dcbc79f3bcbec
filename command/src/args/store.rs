//! What the command line says of the store and its areas.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::size::parse_size;
use super::{ControlPlace, Format};

/// What can be done with a store.
#[derive(Subcommand, Clone, Debug)]
pub enum StoreCommand {
    /// Make a store in a file or disk, and measure how writes are made durable there.
    Init(InitArguments),
    /// Show the store of the control plane; with a path, the one that lies there, used or not.
    Inspect {
        /// The file or disk.
        path: Option<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
    /// Give a store to the control plane that runs.
    Attach {
        /// The file or disk.
        path: PathBuf,
        #[command(flatten)]
        place: ControlPlace,
    },
    /// Have the control plane let go of its store; no program may have an area open.
    Detach(ControlPlace),
}

/// What a store is to be.
#[derive(Args, Clone, Debug)]
pub struct InitArguments {
    /// The file or disk. A file that is not there is made.
    pub path: PathBuf,
    /// Its size, as 512M or 2G. Of a disk, and of a file that is there, the whole is taken.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// What sizes of areas are multiples of: a power of two, 4K to 1G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub grain: Option<u64>,
    /// Areas that there may be.
    #[arg(long, value_name = "COUNT", default_value_t = 1024)]
    pub areas: u32,
    /// Overwrite what is there, whatever it is: all of it is lost.
    #[arg(long)]
    pub force: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What can be done with areas.
#[derive(Subcommand, Clone, Debug)]
pub enum AreaCommand {
    /// Make an area, whose bytes are zero.
    Create {
        /// Its name, among those of your user.
        name: String,
        /// Its size, as 64K or 1G; a multiple of the store's grain.
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        size: u64,
        /// What it is for.
        #[arg(long, value_enum, default_value_t)]
        kind: Kind,
        /// What other users may.
        #[arg(long, value_name = "RIGHTS", value_enum, value_delimiter = ',')]
        others: Vec<AreaRight>,
        #[command(flatten)]
        place: ControlPlace,
    },
    /// Show the areas that you may see.
    List {
        /// What their names begin with.
        #[arg(value_name = "BEGINNING", default_value = "")]
        beginning: String,
        /// User that they belong to, by number, instead of all whose you may see.
        #[arg(long, value_name = "UID")]
        owner: Option<u32>,
        #[command(flatten)]
        format: Format,
    },
    /// Show one area, and by which way you would reach it.
    Inspect {
        #[command(flatten)]
        area: AreaArguments,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Give an area another size. What it gains is zero, and what it loses is zeroed.
    Resize {
        #[command(flatten)]
        area: AreaArguments,
        /// Its size; a multiple of the store's grain.
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        size: u64,
    },
    /// Say what other users may do with an area from now on.
    Appoint {
        #[command(flatten)]
        area: AreaArguments,
        /// What they may; left out, nothing.
        #[arg(long, value_name = "RIGHTS", value_enum, value_delimiter = ',')]
        others: Vec<AreaRight>,
    },
    /// Say how fast an area may be read and written, for the owner of the control plane.
    Rate {
        #[command(flatten)]
        area: AreaArguments,
        /// Bytes in a second, as 100M; 0 is no limit.
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        bytes: u64,
    },
    /// End an area. Its bytes are zeroed before anybody gets them.
    Delete(AreaArguments),
}

/// An area.
#[derive(Args, Clone, Debug)]
pub struct AreaArguments {
    /// Its name.
    pub name: String,
    /// User that it belongs to, by number, instead of yourself.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}

/// What an area is for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Bytes.
    #[default]
    Raw,
    /// A log.
    Log,
    /// A queue.
    Queue,
}

/// What other users may do with an area.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AreaRight {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Change its size, end it, and say what others may.
    Manage,
}
