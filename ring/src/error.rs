//! What the ring answers when it cannot do what was asked.
//!
//! `Full`, `Empty` and `TooLarge` are ordinary answers of a bounded ring. `Corrupt` is not: the
//! other side has put something into shared memory that no correct peer writes, and the error says
//! which side, what it was, and what would have been allowed.

use heliostat_base::mapping::MappingError;

/// One end of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end that creates the memory and writes its identity.
    Creator,
    /// The end that commits elements.
    Producer,
    /// The end that releases elements.
    Consumer,
}

/// Which foreign value was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The region does not begin with the ring's magic number.
    Magic,
    /// The layout version is not this one.
    Version,
    /// A reserved field of the identity is not zero.
    Reserved,
    /// The capacity is not a power of two within the limits.
    Capacity,
    /// The head moved backwards, beyond the capacity, or into the middle of a word.
    Head,
    /// The tail moved backwards, beyond the head, or into the middle of a word.
    Tail,
    /// An element's state is none of the defined ones.
    State,
    /// An element is longer than an element may be.
    Length,
    /// An element was written for another position.
    Tag,
}

/// The other side broke the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// Who wrote the value.
    pub side: Side,
    /// Which value it was.
    pub fault: Fault,
    /// What was found.
    pub found: u64,
    /// The bound or the value that would have been right.
    pub wanted: u64,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Corrupt { side, fault, found, wanted } = self;
        write!(f, "ring corrupted by its {side:?}: {fault:?} is {found:#x}, not {wanted:#x}")
    }
}
impl std::error::Error for Corrupt {}

/// Why a ring could not be created or attached, or an end not be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// The capacity asked for is not a power of two within the limits.
    Capacity {
        /// Data bytes asked for.
        wanted: u64,
        /// Fewest allowed.
        least: u64,
        /// Most allowed.
        most: u64,
    },
    /// This process already holds that end of this ring.
    Claimed(Side),
    /// The memory could not be created or mapped.
    Mapping(MappingError),
    /// What the creator wrote is no ring.
    Corrupt(Corrupt),
}

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RingError::Capacity { wanted, least, most } => {
                write!(f, "capacity {wanted} is not a power of two from {least} to {most}")
            }
            RingError::Claimed(side) => write!(f, "the {side:?} end is already in use"),
            RingError::Mapping(error) => error.fmt(f),
            RingError::Corrupt(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for RingError {}

impl From<MappingError> for RingError {
    fn from(error: MappingError) -> RingError {
        RingError::Mapping(error)
    }
}
impl From<Corrupt> for RingError {
    fn from(error: Corrupt) -> RingError {
        RingError::Corrupt(error)
    }
}

/// Why no space could be reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveError {
    /// Not enough space until the consumer releases something.
    Full,
    /// The element will never fit this ring.
    TooLarge {
        /// Payload bytes asked for.
        wanted: usize,
        /// Most payload bytes that one element may have.
        limit: usize,
    },
    /// The consumer broke the protocol.
    Corrupt(Corrupt),
}

impl std::fmt::Display for ReserveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReserveError::Full => write!(f, "ring is full"),
            ReserveError::TooLarge { wanted, limit } => {
                write!(f, "element of {wanted} bytes is too large (limit {limit})")
            }
            ReserveError::Corrupt(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for ReserveError {}

impl From<Corrupt> for ReserveError {
    fn from(error: Corrupt) -> ReserveError {
        ReserveError::Corrupt(error)
    }
}

/// Why no element could be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeError {
    /// The oldest element is not committed yet, or there is none.
    Empty,
    /// As many elements are taken and not yet released as may be.
    Held {
        /// That many.
        limit: usize,
    },
    /// The producer broke the protocol.
    Corrupt(Corrupt),
}

impl std::fmt::Display for TakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TakeError::Empty => write!(f, "ring is empty"),
            TakeError::Held { limit } => write!(f, "{limit} elements are taken and not released"),
            TakeError::Corrupt(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for TakeError {}

impl From<Corrupt> for TakeError {
    fn from(error: Corrupt) -> TakeError {
        TakeError::Corrupt(error)
    }
}

/// Why waiting ended without what was waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitError {
    /// The deadline has passed.
    TimedOut,
    /// The probe says that the other side is gone.
    PeerGone,
}

impl std::fmt::Display for WaitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WaitError::TimedOut => write!(f, "deadline passed"),
            WaitError::PeerGone => write!(f, "the other side of the ring is gone"),
        }
    }
}
impl std::error::Error for WaitError {}
