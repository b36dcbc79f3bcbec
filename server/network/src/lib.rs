//! The loops of the network service: sockets to remote peers on one side, lanes on the other.
#![forbid(unsafe_code)]
