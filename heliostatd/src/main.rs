//! heliostatd: the control plane of one node.
//!
//! This crate is wiring: sockets, memory files, signals, time. What is decided, and why, lies in
//! `heliostat-control` (policy), `heliostat-service-net` and `heliostat-service-snapshot` (state).
//! One thread serves all sessions from one event loop; it never waits for a client. Delegated
//! operations have server loops (crates in `server/`, started by `services/file`), which never wait for
//! one either; what has to wait, opening by name and closing, has threads of its own.
#![deny(unsafe_code)]

mod admin;
mod answer;
mod args;
mod background;
mod closer;
mod configuration;
mod connect;
mod daemon;
mod event_loop;
mod examine;
mod explain;
mod greet;
mod home;
mod inspect;
mod kernel;
mod listener;
mod logging;
mod memory;
mod metrics;
mod mounts;
mod names;
mod packet;
mod peer;
mod peers;
mod poll;
mod proof;
mod proofs;
mod quotas;
mod recovery;
mod refused;
mod restrict;
mod rights;
mod room;
mod scrape;
mod serve;
mod services;
mod shares;
mod shown;
mod shown_file;
mod signals;
mod spare;
mod start;
mod state;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    start::run(&args::Args::parse())
}
