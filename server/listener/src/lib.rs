//! The thread that accepts for shared listeners and gives each connection to a worker.
#![forbid(unsafe_code)]
