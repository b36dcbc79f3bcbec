//! Policy of the control plane: who may what, how much, how often, and what a person configured.
//!
//! Pure: no sockets, no files, no clock. Users and groups are numbers here (`names` says how a
//! caller resolves the names in a configuration), time is a number of nanoseconds that the
//! caller passes in.
#![forbid(unsafe_code)]

pub mod classes;
pub mod config;
pub mod name;
pub mod policy;
pub mod rates;
pub mod rights;
pub mod rules;
