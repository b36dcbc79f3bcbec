//! Versions of live memory, and queues: regions, their names, and what lies in them.

pub mod memory;
pub mod queue;
pub mod region;
pub mod region_name;
pub mod region_scope;
