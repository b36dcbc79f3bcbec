//! Readiness over direct and native descriptors mixed: epoll, poll, select.
//!
//! Direct streams are looked at in memory; the kernel is asked for the rest now and then while
//! there is work, and always before sleeping. Sleeping happens in the kernel's own call, in
//! which every direct stream is present through its shadow: a bell makes that readable.

pub mod epoll;
pub mod poll;
pub mod select;
