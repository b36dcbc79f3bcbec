//! The filter of a sealed program: what passes, what fails at once, what is asked about.
//!
//! Passes what names nothing but the process itself and descriptors it holds. A call that is not in
//! the tables, and each new one of a later kernel, is asked about, so that it is refused by name.

mod assemble;
mod conditions;
mod options;
mod supervisor;
mod table;

pub use assemble::{assemble, of_supervisor};
pub use table::{passes_socket, NAMESPACES};

/// What others see to, so that the filter need not, and what it has to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fenced {
    /// Signals reach only processes behind the same fence (Landlock ABI 6, Linux 6.12).
    pub signals: bool,
    /// System V objects are the program's own: a namespace of theirs.
    pub ipc: bool,
    /// And so are message queues.
    pub queues: bool,
    /// Memory is limited, so that what no control group counts has to be asked for (`uncharged`).
    pub bounds: bool,
    /// The kernel shows the program other users as nobody: it is in a namespace that has none.
    pub hides_users: bool,
    /// Threads are counted, so that each has to ask.
    pub counts: bool,
    /// Root's programs, which mean to become others, are told that they cannot.
    pub root: bool,
    /// The program has the right to become others, and asks each time.
    pub becomes: bool,
    /// The program's descriptors can be copied, so that it makes its sockets itself.
    pub copies: bool,
}

impl Default for Fenced {
    /// Nobody sees to anything, and descriptors can be copied, as on most hosts.
    fn default() -> Self {
        Self {
            signals: false,
            ipc: false,
            queues: false,
            bounds: false,
            hides_users: false,
            counts: false,
            root: false,
            becomes: false,
            copies: true,
        }
    }
}
