//! How the cores of a machine are parted, and how that is undone whatever happens meanwhile.
//!
//! ```text
//! topology, wish --plan--> partition: application | kernel | interrupt
//! partition --apply--> journal written, then threads, control groups and interrupts changed
//! journal   --undo-->  everything as it was, also after a death between any two steps
//! figures of each partition --judge--> the best, or none
//! ```
//! The system is behind the trait [`System`]: `backend/cores` is the real one. What is a program
//! under Heliostat, and who may part cores, others decide.
#![forbid(unsafe_code)]

mod apply;
mod candidates;
mod journal;
mod judge;
mod plan;
mod system;
mod topology;
mod undo;

pub use apply::{apply, extend, Applied, Orders};
pub use candidates::{candidates, Candidate};
pub use journal::{Entry, Journal, JournalError};
pub use judge::{judge, median, Judged, Verdict, GAIN_LEAST, RATIO_LEAST};
pub use plan::{plan, Partition, PlanError, Wish};
pub use system::{Fault, Interrupt, Program, System, Thread};
pub use topology::{Cpu, Topology};
pub use undo::{undo, Undone};

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod fake;
