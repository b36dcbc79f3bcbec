//! How the cores of a machine are parted: pure state machines.
#![forbid(unsafe_code)]
