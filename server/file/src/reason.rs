//! Why a transfer took its way: what decided, counted for each file and shown to people.

/// What decided about a transfer's way, in the order in which it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    /// The file was opened for the device.
    Asked = 0,
    /// It was, and the transfer is not aligned.
    Misaligned = 1,
    /// It writes.
    Write = 2,
    /// Its first byte was in the cache.
    Hit = 3,
    /// Another session reads behind it.
    Followed = 4,
    /// The file was opened for the buffered way.
    Buffered = 5,
    /// It has fewer bytes than go to the device.
    Small = 6,
    /// The file cannot be opened for the device.
    NoDevice = 7,
    /// It is large, and not aligned.
    Unaligned = 8,
    /// It is large and aligned.
    Large = 9,
    /// No lease says that nobody writes, so that nothing may be kept.
    Unleased = 10,
}

impl Reason {
    /// Every one, in order of number.
    pub const ALL: [Reason; 11] = [
        Reason::Asked,
        Reason::Misaligned,
        Reason::Write,
        Reason::Hit,
        Reason::Followed,
        Reason::Buffered,
        Reason::Small,
        Reason::NoDevice,
        Reason::Unaligned,
        Reason::Large,
        Reason::Unleased,
    ];

    /// In a word, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Asked => "asked",
            Reason::Misaligned => "misaligned",
            Reason::Write => "write",
            Reason::Hit => "hit",
            Reason::Followed => "followed",
            Reason::Buffered => "buffered",
            Reason::Small => "small",
            Reason::NoDevice => "no_device",
            Reason::Unaligned => "unaligned",
            Reason::Large => "large",
            Reason::Unleased => "unleased",
        }
    }

    /// Which way it led to and why, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Asked => "the device: the file was opened for it",
            Reason::Misaligned => "refused: opened for the device, and not aligned",
            Reason::Write => "the kernel: it writes",
            Reason::Hit => "the cache: its first byte was there",
            Reason::Followed => "the cache, filled: another session reads behind",
            Reason::Buffered => "the cache, filled: the file was opened buffered",
            Reason::Small => "the cache, filled: below the device's threshold",
            Reason::NoDevice => "the cache, filled: the file cannot be opened for the device",
            Reason::Unaligned => "the cache, filled: large, but not aligned",
            Reason::Large => "the device: from its threshold on, and aligned",
            Reason::Unleased => "the kernel: no lease vouches for the file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_stands_at_its_number_and_has_a_name_of_its_own() {
        assert!(Reason::ALL.iter().enumerate().all(|(at, reason)| *reason as usize == at));
        let mut names = Reason::ALL.map(Reason::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
