//! Why a transfer took its way: what decided, counted for each file and shown to people.

/// What decided about a transfer's way, in the order in which it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WayReason {
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

impl WayReason {
    /// Every one, in order of number.
    pub const ALL: [WayReason; 11] = [
        WayReason::Asked,
        WayReason::Misaligned,
        WayReason::Write,
        WayReason::Hit,
        WayReason::Followed,
        WayReason::Buffered,
        WayReason::Small,
        WayReason::NoDevice,
        WayReason::Unaligned,
        WayReason::Large,
        WayReason::Unleased,
    ];

    /// In a word, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            WayReason::Asked => "asked",
            WayReason::Misaligned => "misaligned",
            WayReason::Write => "write",
            WayReason::Hit => "hit",
            WayReason::Followed => "followed",
            WayReason::Buffered => "buffered",
            WayReason::Small => "small",
            WayReason::NoDevice => "no_device",
            WayReason::Unaligned => "unaligned",
            WayReason::Large => "large",
            WayReason::Unleased => "unleased",
        }
    }

    /// Which way it led to and why, for people.
    pub const fn text(self) -> &'static str {
        match self {
            WayReason::Asked => "the device: the file was opened for it",
            WayReason::Misaligned => "refused: opened for the device, and not aligned",
            WayReason::Write => "the kernel: it writes",
            WayReason::Hit => "the cache: its first byte was there",
            WayReason::Followed => "the cache, filled: another session reads behind",
            WayReason::Buffered => "the cache, filled: the file was opened buffered",
            WayReason::Small => "the cache, filled: below the device's threshold",
            WayReason::NoDevice => "the cache, filled: the file cannot be opened for the device",
            WayReason::Unaligned => "the cache, filled: large, but not aligned",
            WayReason::Large => "the device: from its threshold on, and aligned",
            WayReason::Unleased => "the kernel: no lease vouches for the file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_stands_at_its_number_and_has_a_name_of_its_own() {
        assert!(WayReason::ALL.iter().enumerate().all(|(at, reason)| *reason as usize == at));
        let mut names = WayReason::ALL.map(WayReason::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WayReason::ALL.len());
    }
}
