//! Shared listeners: who takes which connection, and who may; a pure state machine.
#![forbid(unsafe_code)]
