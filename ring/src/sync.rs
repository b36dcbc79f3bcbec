//! The only door to atomics in this crate: `heliostat_base::sync`.

pub(crate) use heliostat_base::sync::*;
