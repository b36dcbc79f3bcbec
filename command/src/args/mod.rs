//! What the command line says: types alone, and nothing of what is done with them.
//!
//! `documents/main.rs` writes the man pages and completions from the same types, so this folder
//! uses nothing else of the program.

pub mod cluster;
pub mod coprocessor;
pub mod cores;
pub mod listener;
pub mod lock;
pub mod log;
pub mod memory;
pub mod names;
mod purpose;
pub mod rpc;
mod size;
pub mod snapshot;
pub mod store;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use cluster::ClusterCommand;
use coprocessor::CoprocessorCommand;
use cores::CoresArguments;
use listener::ListenerCommand;
use lock::LockCommand;
use log::LogCommand;
use memory::MemoryCommand;
use names::{CatArguments, CpArguments, LsArguments, MountArguments};
pub use purpose::Purpose;
use rpc::RpcCommand;
use snapshot::SnapshotCommand;
use store::{AreaCommand, StoreCommand};

/// Runs unmodified programs with direct connections between them, and shows what they do.
#[derive(Parser, Clone, Debug)]
#[command(name = "heliostat", version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Run a program under Heliostat; starts the control plane if none runs.
    Run(Box<RunArguments>),
    /// Make sure that a control plane runs, and print the path of its socket.
    Start(StartArguments),
    /// Show sessions, listening addresses and limits of the control plane.
    Status(Look),
    /// Show every connection of a process, its path, its other end, and why it is native if it is.
    Explain {
        /// Process id.
        pid: u32,
        /// Show the processes that it has started too, and theirs.
        #[arg(long)]
        tree: bool,
        #[command(flatten)]
        look: Look,
    },
    /// Put what a log of durable files has, and a crash of the machine has taken from them, into the files.
    Recover(RecoverArguments),
    /// Check what this machine allows, and say what to do about what it does not.
    Doctor(DoctorArguments),
    /// Print the control plane's metrics (OpenMetrics text).
    Metrics(ControlPlace),
    /// End the grants of a process: its connections leave the direct path.
    Revoke {
        /// Process id.
        pid: u32,
        #[command(flatten)]
        whose: ControlOwner,
    },
    /// End the control plane; direct connections between programs go on.
    Stop(ControlOwner),
    /// Show sessions and their traffic, refreshed every second.
    Top(ControlPlace),
    /// Look for system calls in libraries; the stub starts this for those that are new to it.
    #[command(hide = true)]
    Examine {
        /// The libraries.
        files: Vec<PathBuf>,
    },
    /// Shared listeners, whose connections are given to many workers: show, make and change them.
    Listener {
        /// What to do with them.
        #[command(subcommand)]
        command: ListenerCommand,
    },
    /// Locks, semaphores and barriers: show them.
    Lock {
        /// What to do with them.
        #[command(subcommand)]
        command: LockCommand,
    },
    /// Logs and queues: show and verify their entries.
    Log {
        /// What to do with them.
        #[command(subcommand)]
        command: LogCommand,
    },
    /// Nodes of a cluster: show, join and leave them.
    Cluster {
        /// What to do with them.
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// Lean workers: run a program as several that have files and sockets by shared memory only.
    Coprocessor {
        /// What to do with them.
        #[command(subcommand)]
        command: CoprocessorCommand,
    },
    /// The machine's cores: show them, part them between programs and server loops, and measure that.
    Cores(Box<CoresArguments>),
    /// Memory regions: show, free, and read them.
    Memory {
        /// What to do with them.
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// Remote procedure calls: show the functions that programs serve.
    Rpc {
        /// What to do with them.
        #[command(subcommand)]
        command: RpcCommand,
    },
    /// The store, in which areas last: make, show, attach and detach it.
    Store {
        /// What to do with it.
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Areas of the store: make, show, resize, share and end them.
    Area {
        /// What to do with them.
        #[command(subcommand)]
        command: AreaCommand,
    },
    /// Show the names of this node as files below a folder: regions, versions, locks, status.
    Mount(MountArguments),
    /// List names, as /memory or /snapshot/heat; needs no mount.
    Ls(LsArguments),
    /// Write what names stand for to standard output: a version, a region, the state of a lock.
    Cat(CatArguments),
    /// Copy what a name stands for into a file, or a file into a region.
    Cp(CpArguments),
    /// Versions of live memory: show, save, compare and follow them.
    Snapshot {
        /// What to do with them.
        #[command(subcommand)]
        command: SnapshotCommand,
    },
}

/// Where the control plane is.
#[derive(Args, Clone, Debug, Default)]
pub struct ControlPlace {
    /// Path of the control socket, instead of HELIOSTAT_SOCKET or the default.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// How to print, and where the control plane is.
#[derive(Args, Clone, Debug, Default)]
pub struct Format {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}

/// What to examine the machine for.
#[derive(Args, Clone, Debug, Default)]
pub struct DoctorArguments {
    /// End with status 1 if this cannot work here, and with 0 if it can, whatever else is missing.
    #[arg(long = "for", value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub purposes: Vec<Purpose>,
    #[command(flatten)]
    pub format: Format,
}

/// Whose control plane is meant.
#[derive(Args, Clone, Debug, Default)]
pub struct ControlOwner {
    /// Name or number of a user whose control plane is meant; for root.
    #[arg(long, value_name = "NAME", conflicts_with = "socket")]
    pub user: Option<String>,
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
}

/// How to print, and whose control plane is looked at.
#[derive(Args, Clone, Debug, Default)]
pub struct Look {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// The control plane.
    #[command(flatten)]
    pub whose: ControlOwner,
}

/// Which control plane to make sure of.
#[derive(Args, Clone, Debug)]
pub struct StartArguments {
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
    /// Its configuration, if this command has to start it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// As in a policy file: the kernel's own limit on process numbers.
const PROCESSES_MAX: i64 = 4_194_304;

/// What a sealed program may reach.
#[derive(Args, Clone, Debug, Default)]
pub struct SealArguments {
    /// Grant what lies at and below PATH: read only, :rw for writing too, :stat to be looked at only.
    #[arg(long, value_name = "PATH[:ro|:rw|:stat]", requires = "sealed")]
    pub grant: Vec<String>,
    /// Let the program listen there.
    #[arg(long, value_name = "[ADDRESS:]PORT", requires = "sealed")]
    pub listen: Vec<String>,
    /// Let the program connect there.
    #[arg(long, value_name = "HOST:PORT", requires = "sealed")]
    pub connect: Vec<String>,
    /// Let the program look this name up; * stands for any part.
    #[arg(long, value_name = "NAME", requires = "sealed")]
    pub lookup: Vec<String>,
    /// Let the program have operations on files that it opens done by the control plane.
    #[arg(long, requires = "sealed")]
    pub delegate: bool,
    /// Let the program publish a snapshot region, or attach to one; NAME may end in *. Of another
    /// user's: NAME:attach:UID.
    #[arg(long, value_name = "NAME:publish|:attach", requires = "sealed")]
    pub snapshot: Vec<String>,
    /// Let the program map a memory region, or make one; NAME may end in *. The control plane reads
    /// and writes it for the program. Of another user's: NAME:read:UID.
    #[arg(long, value_name = "NAME:read|:write|:allocate", requires = "sealed")]
    pub region: Vec<String>,
    /// Let the program open a lock, semaphore or barrier; NAME may end in *. Of another user's:
    /// NAME:acquire:UID.
    #[arg(long, value_name = "NAME:acquire", requires = "sealed")]
    pub lock: Vec<String>,
    /// Let the program call a function, or serve one; NAME may end in *. Of another user's:
    /// NAME:call:UID.
    #[arg(long, value_name = "NAME:call|:serve", requires = "sealed")]
    pub call: Vec<String>,
    /// Let the program read and write an area of the store, by a server loop; NAME may end in *. Only
    /// reading, managing and making, and those of another user: NAME:read, :manage, :create, NAME:read:UID.
    #[arg(long, value_name = "NAME[:read|:write|:manage|:create]", requires = "sealed")]
    pub area: Vec<String>,
    /// Tell the program this variable: its value outside, or the one given; NAME_* is all that begin
    /// so. Untold, only a short list of harmless names crosses.
    #[arg(long, value_name = "NAME[=VALUE]", requires = "sealed")]
    pub env: Vec<String>,
    /// Let a program of root's become this user, as servers' workers do.
    #[arg(long, value_name = "NAME", requires = "sealed")]
    pub user: Vec<String>,
    /// Hand the program this descriptor of the caller's besides; for other commands.
    #[arg(long, value_name = "NUMBER", requires = "sealed", hide = true)]
    pub keep: Vec<i32>,
    /// Tell the program no variable but those of --env and of policies.
    #[arg(long, requires = "sealed")]
    pub clear_env: bool,
    /// Take grants, variables and limits from a file.
    #[arg(long, value_name = "FILE", requires = "sealed")]
    pub policy: Vec<PathBuf>,
    /// Write the policy that the program turned out to need.
    #[arg(long, value_name = "FILE", requires = "sealed")]
    pub trace_policy: Option<PathBuf>,
    /// Leave out what any dynamically linked program needs to start.
    #[arg(long, requires = "sealed")]
    pub bare: bool,
    /// Memory of all its processes together, as 512M.
    #[arg(long, value_name = "BYTES", requires = "sealed")]
    pub memory: Option<String>,
    /// What its own /tmp and /dev/shm hold together, as 512M.
    #[arg(long, value_name = "BYTES", requires = "sealed")]
    pub tmp: Option<String>,
    /// Processes and threads at once.
    #[arg(long, value_name = "N", requires = "sealed",
        value_parser = clap::value_parser!(u32).range(1..=PROCESSES_MAX))]
    pub processes: Option<u32>,
}

/// What is to be recovered.
#[derive(Args, Clone, Debug)]
pub struct RecoverArguments {
    /// The control plane, for a log in an area of its store.
    #[command(flatten)]
    pub place: ControlPlace,
    /// The log, as `heliostat run --log` has named it.
    pub log: PathBuf,
    /// Write also where a file was written since the machine came up, or the machine has not crashed.
    #[arg(long)]
    pub force: bool,
    /// Then give up what could not be put into its file.
    #[arg(long)]
    pub drop: bool,
}

/// How to run a program.
#[derive(Args, Clone, Debug)]
#[command(trailing_var_arg = true)]
pub struct RunArguments {
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
    /// Configuration of the control plane, if this command has to start it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Load the stub but leave every connection on the kernel's path.
    #[arg(long)]
    pub no_direct: bool,
    /// Let fdatasync(2) and fsync(2) of files of this name, or path, return at once, and hold back what
    /// the program lets out until the device has answered. `*` and `?` stand for any; may be repeated.
    /// `detect:GLOB` watches first whether such a file is appended to and flushed again and again; `auto`
    /// does so with all.
    #[arg(long, value_name = "GLOB")]
    pub durable: Vec<String>,
    /// Make what is appended to durable files durable by a log in this file, or in the area `/store/NAME`
    /// of the store: one write instead of a flush of the file. It is made if it is not there (64 MiB),
    /// and recovered if it has something.
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// Share what the program listens on at this port with whoever listens there too; each connection
    /// is given to one of them by a rule (least-load unless named). May be repeated.
    #[arg(long, value_name = "PORT[:RULE]", value_parser = listener::parse_share)]
    pub share: Vec<String>,
    /// Have groups of the program's system calls made on kernel cores, where that is measured to pay:
    /// files, metadata, sockets (these if none is named), signals, ipc, process. `always:GROUPS` does not
    /// measure.
    #[arg(long, value_name = "GROUPS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub offload: Option<String>,
    /// The kernel cores for that, as numbers; without it the last core that the program may use.
    #[arg(long, value_name = "CORES", value_delimiter = ',', requires = "offload")]
    pub offload_cores: Vec<usize>,
    /// Have connections to remote peers carried by loops of the network service on so many kernel cores (3), on
    /// these (2-3 or 2,5), or on any (any), whatever the measured rule says; or have none carried (never).
    #[arg(long, value_name = "N|LIST|any|never")]
    pub network_cores: Option<String>,
    /// End with status 125 instead of running the program natively when Heliostat cannot cover it.
    #[arg(long)]
    pub require: bool,
    /// Say on standard error what is done.
    #[arg(long)]
    pub verbose: bool,
    /// Run the program so that it reaches nothing but what is granted.
    #[arg(long)]
    pub sealed: bool,
    /// What the program may reach.
    #[command(flatten)]
    pub seal: SealArguments,
    /// The program and its arguments.
    #[arg(required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
