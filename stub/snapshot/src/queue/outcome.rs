//! What a producer of a queue is told.

use heliostat_base::mapping::OutOfRange;

use crate::outcome::LOST;
use crate::PoolError;

/// Why there is no room, or no queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueError {
    /// No slot is free: consumers that count have not read what is in them, or read it now, or
    /// nobody is there to whom an item could be dealt.
    Full {
        /// Slots of the window.
        slots: u32,
    },
    /// No slot is free, and for good: the control plane did not tell who reads the queue, as for
    /// regions (`PublishError::Lost`).
    Lost,
    /// The item is longer than a slot.
    TooLong(OutOfRange),
    /// Item size or slots outside their limits.
    Shape,
    /// Its memory could not be made.
    Memory(PoolError),
}

impl std::fmt::Display for QueueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full { slots } => {
                write!(f, "none of {slots} slots is free; wait for consumers, or expel laggards")
            }
            Self::Lost => f.write_str(LOST),
            Self::TooLong(error) => error.fmt(f),
            Self::Shape => {
                f.write_str("a queue has 2 to 65536 slots of at least 1 byte, 1 TiB in all")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for QueueError {}

/// What a queue has done since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Items committed.
    pub committed: u64,
    /// Times that no slot was free.
    pub full: u64,
    /// Slots passed over, because somebody read them or their receiver was slow.
    pub passed_over: u64,
    /// Consumers that do not count any more, by `expel_laggards`.
    pub expelled: u64,
}
