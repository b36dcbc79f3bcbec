//! What a store has to have done by a device.

/// What is to be done with the device next. Each step begins when the one before has completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write these bytes, whole blocks.
    Write {
        /// First byte on the device.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Make bytes read as zero.
    Zero {
        /// First byte on the device.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Make all of the above survive a loss of power.
    Flush,
}
