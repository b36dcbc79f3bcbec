//! The roll, one event after the other.
