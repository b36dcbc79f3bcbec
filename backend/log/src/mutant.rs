//! Rules of the log that a test breaks on purpose, to show that it would find them broken.

/// Which rule is broken. In a program: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Mutant {
    #[default]
    None,
    /// An opening does not count: leftovers behind a cut look like what follows it.
    #[cfg_attr(not(test), allow(dead_code))]
    SameGeneration,
    /// Entries are acknowledged when they are written, and before that is durable.
    #[cfg_attr(not(test), allow(dead_code))]
    AcknowledgesUnflushed,
    /// The header tells of an end that is still on its way.
    #[cfg_attr(not(test), allow(dead_code))]
    HeaderBeforeData,
    /// Room is used again before the header says that it was given up.
    #[cfg_attr(not(test), allow(dead_code))]
    ReusesBeforeHeader,
    /// Two writes of one sector are under way at once.
    #[cfg_attr(not(test), allow(dead_code))]
    SharesSectors,
    /// A later write is acknowledged before an earlier one.
    #[cfg_attr(not(test), allow(dead_code))]
    AcknowledgesOutOfOrder,
    /// A gap that was acknowledged is taken for a torn tail.
    #[cfg_attr(not(test), allow(dead_code))]
    IgnoresEvidence,
}
