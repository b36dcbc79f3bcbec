//! Write tracking (`heliostat_base::track`) against the real kernel.

mod memory;
mod pages;
mod processes;
