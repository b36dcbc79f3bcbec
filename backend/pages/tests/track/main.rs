//! Write tracking (`heliostat_backend_pages::track`) against the real kernel.

mod memory;
mod pages;
mod processes;
