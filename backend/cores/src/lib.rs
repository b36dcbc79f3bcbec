//! What the cores of this machine are, and how threads and interrupts are placed on them.
#![forbid(unsafe_code)]
