//! What the command line says of snapshots.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ControlPlace, Format};

/// What can be done with versions of live memory.
#[derive(Subcommand, Clone, Debug)]
pub enum SnapshotCommand {
    /// Show the named regions that you may see, and the newest version of each.
    List(Format),
    /// Write a version of a region to a file (*.hsnap).
    Save(SaveArguments),
    /// Write the bytes of a saved version back, raw or as a NumPy array (*.npy).
    #[command(visible_alias = "restore")]
    Export(ExportArguments),
    /// Show what a file holds; with --check, read all of it.
    Show(ShowArguments),
    /// Compare two versions, saved or live; ends with 0 if they are the same, 1 if not, 2 on trouble.
    Diff(DiffArguments),
    /// Follow the versions of a region, a line for each.
    Watch(WatchArguments),
    /// Publish memory of a running program that knows nothing of it, by name.
    Publish(PublishArguments),
    /// Show what `publish` could publish of a program.
    Memory {
        /// Process id.
        pid: i32,
    },
}

/// A region of a running program.
#[derive(Args, Clone, Debug)]
pub struct RegionArguments {
    /// Name of the region, as `heliostat snapshot list` shows it.
    pub region: String,
    /// User that the region belongs to, by number, instead of yourself.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}

/// What to save, and how.
#[derive(Args, Clone, Debug)]
pub struct SaveArguments {
    /// The region.
    #[command(flatten)]
    pub region: RegionArguments,
    /// The file; NAME-VERSION.hsnap if it is left out. With --every, what the files' names begin with.
    pub file: Option<PathBuf>,
    /// Save this version instead of the newest; it must still be there.
    #[arg(long, value_name = "N", conflicts_with_all = ["wait", "every"])]
    pub version: Option<u64>,
    /// Wait for the next version and save that.
    #[arg(long)]
    pub wait: bool,
    /// Write only what differs from the version in this file.
    #[arg(long, value_name = "BASE", conflicts_with = "every")]
    pub incremental: Option<PathBuf>,
    /// Compress with zstd at this level, -7 (fastest) to 22 (smallest).
    #[arg(long, value_name = "LEVEL", default_value_t = 3, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-7..=22))]
    pub compress: i32,
    /// Do not compress.
    #[arg(long, conflicts_with = "compress")]
    pub no_compress: bool,
    /// Save again and again, at this interval: 90s, 5m, 1h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub every: Option<Duration>,
    /// With --every: keep the newest N files that this command wrote.
    #[arg(long, value_name = "N", requires = "every",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
}

/// What to export, and where to.
#[derive(Args, Clone, Debug)]
pub struct ExportArguments {
    /// The file.
    pub file: PathBuf,
    /// Where to: a name that ends in .npy gets a NumPy array, - is standard output.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// What to show.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The file.
    pub file: PathBuf,
    /// Read the whole file and its bases, and check every page.
    #[arg(long)]
    pub check: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to compare.
#[derive(Args, Clone, Debug)]
pub struct DiffArguments {
    /// A file, a region (its newest version), or REGION@N.
    pub a: String,
    /// The same.
    pub b: String,
    /// Print the ranges that differ.
    #[arg(long)]
    pub ranges: bool,
    /// User that live regions belong to, by number, instead of yourself.
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// How to print, and the control plane.
    #[command(flatten)]
    pub format: Format,
}

/// What to follow.
#[derive(Args, Clone, Debug)]
pub struct WatchArguments {
    /// The region.
    #[command(flatten)]
    pub region: RegionArguments,
    /// Print a line of JSON for each line.
    #[arg(long)]
    pub json: bool,
    /// Wait for the region's next producer when this one has ended, and for the first.
    #[arg(long)]
    pub follow: bool,
}

/// What to publish of a program, as what, and when.
#[derive(Args, Clone, Debug)]
pub struct PublishArguments {
    /// The program's process id, or the name of a region that it has registered.
    pub target: String,
    /// heap, stack, anon, all-private, ADDRESS+LENGTH, largest:N, or the path of a mapped file;
    /// several, parted by commas [default: heap,anon].
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub memory: Vec<String>,
    /// Name, or first part of the names [default: pid-PID, or NAME.outside of a region].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Time from one version to the next, as in 500ms, 2s, 5m; without it there is one version.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub every: Option<Duration>,
    /// End once the last version is made, instead of keeping its name until interrupted. Who has
    /// attached by then goes on reading.
    #[arg(long)]
    pub once: bool,
    /// Versions to make.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// The newest so many versions stay readable (1 to 14).
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub keep: usize,
    /// Track writes even of a program with a system-call filter, which may kill it for that.
    #[arg(long)]
    pub force_tracking: bool,
    /// Do not track writes: every version copies everything while the program stands.
    #[arg(long, conflicts_with = "force_tracking")]
    pub no_tracking: bool,
    /// How to print, and the control plane.
    #[command(flatten)]
    pub format: Format,
}

/// A time as people write it: a number and ms, s, m or h.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "write it as 500ms, 90s, 5m or 1h".to_owned())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("the unit is one of ms, s, m, h".to_owned()),
    };
    match number.checked_mul(unit_ms) {
        Some(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
        _ => Err("it is no time to wait".to_owned()),
    }
}
