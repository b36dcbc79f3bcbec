//! What a machine can be examined for.

use clap::ValueEnum;

/// What somebody wants to do here.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Direct connections between unmodified programs.
    Streams,
    /// Cached files that unmodified programs read from a mapping.
    Files,
    /// Versions of live memory.
    Snapshots,
    /// File operations that the control plane's server loops do for a program.
    Delegated,
    /// Programs that reach nothing but what is granted.
    Sealed,
}
