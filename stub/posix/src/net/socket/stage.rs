//! How far a connection has come from the kernel's path to the rings (see `early`).

/// How far a connection has come on its way from the kernel's path to the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Stage {
    /// Both directions go through the rings, or the connection is native: nothing is early.
    Settled = 0,
    /// Client: its ring is not begun; all is the kernel's.
    Offered = 1,
    /// The own ring is begun; what comes in may still be payload on the shadow.
    Started = 2,
    /// Acceptor: claimed, and the offer not proven; all is the kernel's.
    Accepted = 3,
    /// Acceptor: the offer may still come; all is the kernel's.
    Undecided = 4,
}

impl Stage {
    /// The stage of this number.
    pub fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Offered,
            2 => Self::Started,
            3 => Self::Accepted,
            4 => Self::Undecided,
            _ => Self::Settled,
        }
    }

    /// True while all that the program sends, receives and is told is the kernel's.
    pub fn is_kernels(self) -> bool {
        matches!(self, Self::Offered | Self::Accepted | Self::Undecided)
    }
}
