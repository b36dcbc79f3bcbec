//! MapReduce on cluster memory: word count and sort of a file by workers on several nodes.
//!
//! ```text
//! master (node 1)                           worker (any node)
//!   plan: splits, splitters                   takes a task by compare_swap on the board
//!   board: a region with a word a task <----  map: split --file service--> sorted run --> own region
//!   sees deaths, gives tasks again            reduce: parts of all runs, read from their nodes
//!   output <--- results, read from nodes      heart beats: fetch_add on the board
//! ```
//!
//! Everything that workers tell each other lies in memory regions; nothing here opens a connection.
//! `docs/applications.md` tells what the death of a worker, of its node and of the master means.
#![forbid(unsafe_code)]

pub mod board;
pub mod entry;
pub mod files;
pub mod generate;
pub mod job;
pub mod master;
pub mod plain;
pub mod report;
pub mod results;
pub mod table;
pub mod worker;

/// What fails here is told to a person.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
