//! What the cores of this machine are, and how threads, groups and interrupts are placed on them.
//!
//! ```text
//! Root (/proc and /sys, or a tree of files like them) --probe--> Machine: cores, caches, nodes, interrupts
//! RealSystem: the trait System of `service/cores`, on this machine
//! ```
//! Everything is read below one root, so that a test brings a machine of files. It leaves to others
//! which cores are whose, and who may say so.
#![forbid(unsafe_code)]

mod ability;
mod groups;
mod interrupts;
mod journal_file;
mod machine;
mod root;
mod system;
mod tasks;

pub use ability::{probe as probe_ability, Ability};
pub use interrupts::{interrupts, InterruptFacts};
pub use journal_file::JournalFile;
pub use machine::{probe, Cache, CpuFacts, Machine};
pub use root::Root;
pub use system::{allowed_here, RealSystem};
pub use tasks::{Marker, Process, Tasks};
