//! What the command line says of co-processors.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::size::parse_size;
use super::ControlPlace;

/// What can be done with lean workers.
#[derive(Subcommand, Clone, Debug)]
pub enum CoprocessorCommand {
    /// Run a program as sealed workers that have files and sockets by shared memory only.
    Run(Box<CoprocessorArguments>),
    /// Become one worker; `run` starts this.
    #[command(hide = true)]
    Become(BecomeArguments),
}

/// How workers run.
#[derive(Args, Clone, Debug)]
#[command(trailing_var_arg = true)]
pub struct CoprocessorArguments {
    /// The control plane.
    #[command(flatten)]
    pub place: ControlPlace,
    /// Configuration of the control plane, if this command has to start it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How many workers.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// Cores of the workers, by turns: one worker on each of 2,4-6; none: wherever the kernel puts
    /// them. If nothing is said, a lone worker likewise, and several by turns on each core that
    /// applications may use.
    #[arg(long, value_name = "LIST|none")]
    pub cores: Option<String>,
    /// Memory of each worker for payload, as 64M.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_size)]
    pub window: u64,
    /// Let workers open what lies at and below PATH: read only, :rw for writing too.
    #[arg(long, value_name = "PATH[:ro|:rw]")]
    pub root: Vec<String>,
    /// Let workers listen there.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub listen: Vec<String>,
    /// Let workers connect there.
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Vec<String>,
    /// Grant the program itself a path, as `heliostat run --grant`: what it loads to start.
    #[arg(long, value_name = "PATH[:ro|:rw|:stat]", conflicts_with = "unsealed")]
    pub grant: Vec<String>,
    /// Do not seal the workers: they have files and sockets of their own besides.
    #[arg(long)]
    pub unsealed: bool,
    /// Ring for workers that make no system call at all: this process looks at their rings.
    #[arg(long)]
    pub watch: bool,
    /// Start a worker again that ends otherwise than with 0, so many times each.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub restart: u32,
    /// The program and its arguments.
    #[arg(required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// How one worker begins.
#[derive(Args, Clone, Debug)]
#[command(trailing_var_arg = true)]
pub struct BecomeArguments {
    /// Process that it must not outlive.
    #[arg(long)]
    pub parent: i32,
    /// Core to run on.
    #[arg(long)]
    pub core: Option<usize>,
    /// The program and its arguments.
    #[arg(required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
