//! TCP sockets of delegated operations, on a server loop.
#![forbid(unsafe_code)]
