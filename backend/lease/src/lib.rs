//! The kernel's leases on files: taking them and hearing of their end, and reading under them.
//!
//! `holder` belongs to the control plane, which takes leases and gives them back; `reader` belongs
//! to a program that reads a mapping for as long as the promise behind it holds; `resident` says how
//! much of a file there is to map. Who may have a lease, and how long a broken one rests, is decided
//! elsewhere.
#![warn(missing_docs)]

pub mod holder;
pub mod reader;
pub mod resident;
