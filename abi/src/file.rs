//! Files: operations that a session has a server loop do.

pub mod delegated;
