//! Stopping, reading and tracking another process (`heliostat_backend_pages::tracee`).

mod child;
mod ends;
mod tracking;
mod unseen;
