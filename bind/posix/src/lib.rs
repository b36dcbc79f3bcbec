//! The stub of unmodified programs: a preloaded library between libc and the kernel.
//!
//! No logic of its own: it turns the registers of a caught system call into the arguments of
//! `heliostat_stub_posix` and the answer back. What the stub answers with `None` the kernel does, by
//! libc's own instruction and without a frame of ours on the stack.
//!
//! - `start`: the constructor, which patches libc once
//! - `libraries`: what makes system calls without libc
//! - `dispatch`: from call number to function; `call`: what such a function is given
//! - `transfer`, `messages`, `events`, `sockets`, `descriptors`, `spawn`: the functions, by kind
//! - `passed_on`: the stub's variables, also in an environment that was cleared
//! - `uring`: rings of the program's own
//! - `files`: opening, reading and seeking files
//! - `fault`, `fault_action`: the signals of memory that is not there, and who hears of them
//! - `durable`, `harmless`: files whose flush is not waited for, and which calls wait in its stead;
//!   `failed`: which are refused after one that has failed
//! - `offload`: calls that executors on kernel cores make
//! - `sealed`: what sealed programs need not ask their supervisor
//! - `signal`, `actions`: what the program sets for signals; `handler`: the entry in front of its
//!   own handlers
//! - `memory`: the program's pointers, each followed in one place, by copies that may fault

/// Relays are forked without libc's knowledge.
#[global_allocator]
static HEAP: heliostat_base::heap::Heap = heliostat_base::heap::Heap;

mod actions;
mod alone;
mod call;
mod descriptors;
mod dispatch;
mod durable;
mod environment;
mod events;
mod failed;
mod fault;
mod fault_action;
mod files;
mod handler;
mod harmless;
mod held;
mod kept;
mod libraries;
mod mappings;
mod memory;
mod messages;
mod offload;
mod passed_on;
mod queues;
mod sealed;
mod signal;
mod sockets;
mod spawn;
mod start;
mod transfer;
mod uring;
