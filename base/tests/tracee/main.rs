//! Stopping, reading and tracking another process (`heliostat_base::tracee`).

mod child;
mod ends;
mod tracking;
mod unseen;
