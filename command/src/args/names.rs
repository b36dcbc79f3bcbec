//! What the command line says of names as files.

use std::path::PathBuf;

use clap::Args;

use super::{ControlPlace, Format};

/// Where names are to be shown as files.
#[derive(Args, Clone, Debug)]
pub struct MountArguments {
    /// An empty folder. Programs find the names of this node below it until `fusermount3 -u` or
    /// `umount` takes them away.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Let all users use it, each with the rights of the one who mounts.
    #[arg(long)]
    pub allow_other: bool,
    /// Stay in front until the mount is taken away, instead of returning when it is there.
    #[arg(long)]
    pub foreground: bool,
    /// Say on standard output when it is there; for the process that returns then.
    #[arg(long, hide = true, requires = "foreground")]
    pub tells: bool,
    /// Sleep until standard input ends, and take the mount away if nobody serves it then.
    #[arg(long, hide = true)]
    pub guard: bool,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}

/// Which names to list.
#[derive(Args, Clone, Debug)]
pub struct LsArguments {
    /// Names, as /memory/kv; a folder's are listed.
    #[arg(value_name = "NAME", default_value = "/")]
    pub names: Vec<String>,
    /// Show of each what may be done with it, whose it is, and its bytes.
    #[arg(short, long)]
    pub long: bool,
    #[command(flatten)]
    pub format: Format,
}

/// What to write to standard output.
#[derive(Args, Clone, Debug)]
pub struct CatArguments {
    /// Names, as /snapshot/heat/current.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}

/// What to copy.
#[derive(Args, Clone, Debug)]
pub struct CpArguments {
    /// A name, as /snapshot/heat/current, or a file of this machine; - is standard input.
    pub from: String,
    /// A file or folder of this machine, or a name that may be written. A file whose path begins as a
    /// name does is meant by ./ or by its folder's other path.
    pub to: String,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}
