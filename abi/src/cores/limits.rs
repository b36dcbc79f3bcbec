//! Limits of the service of cores, each with its reason.

/// Cores, by the largest number plus one: Linux's own limit for x86-64 without larger masks is 8192;
/// machines with more than 1024 hardware threads are rare, and a mask goes into every reply.
pub const CPUS_MAX: usize = 1024;
/// Ranges of a list in a request: as many as its body has room for, twice.
pub const RANGES_MAX: usize = 12;
