//! heliostat: the command line.
//!
//! `run` prepares an environment and becomes the program, `snapshot` reads versions of live memory;
//! every other command asks the control plane one question and prints the answer.
#![deny(unsafe_code)]

mod area;
mod args;
mod client;
mod cluster;
mod coprocessor;
mod cores;
mod delegated;
mod doctor;
mod ensure;
mod explain;
mod image;
mod libc_image;
mod listener;
mod lock;
mod log;
mod memory;
mod mount;
mod names;
mod network;
mod offload;
mod order;
mod place;
mod proc;
mod program;
mod quality;
mod recover;
mod require;
mod rpc;
mod run;
mod say;
mod sealed;
mod sealing;
mod show;
mod sites;
mod snapshot;
mod start;
mod status;
mod store;
mod stub;
mod table;
mod top;

use std::process::ExitCode;

use args::{Arguments, Command};
use clap::Parser;
use heliostat_abi::session::record::Request;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => return run::run(&arguments),
        Command::Start(arguments) => return start::start(&arguments),
        Command::Recover(arguments) => return recover::recover(&arguments),
        Command::Doctor(format) => return doctor::doctor(&format),
        Command::Status(look) => status::status(&look),
        Command::Explain { pid, tree, look } => explain::explain(pid, tree, &look),
        Command::Metrics(place) => status::metrics(&place),
        Command::Revoke { pid, whose } => order::tell(&whose, &Request::Revoke { pid }),
        Command::Stop(whose) => order::tell(&whose, &Request::Stop),
        Command::Top(place) => top::top(&place),
        Command::Examine { files } => return run::examine(&files),
        Command::Listener { command } => return listener::run(&command),
        Command::Lock { command } => return lock::run(&command),
        Command::Log { command } => return log::run(&command),
        Command::Cluster { command } => return cluster::run(&command),
        Command::Coprocessor { command } => return coprocessor::run(&command),
        Command::Cores(arguments) => return cores::run(&arguments),
        Command::Memory { command } => return memory::run(&command),
        Command::Mount(arguments) => return mount::run(&arguments),
        Command::Ls(arguments) => return names::ls(&arguments),
        Command::Cat(arguments) => return names::cat(&arguments),
        Command::Cp(arguments) => return names::cp(&arguments),
        Command::Rpc { command } => return rpc::run(&command),
        Command::Store { command } => return store::run(&command),
        Command::Area { command } => return area::run(&command),
        Command::Snapshot { command } => return snapshot::run(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}
