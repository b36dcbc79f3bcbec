//! How a write is made durable on a device.

/// The way that was found to cost least on the device, or was configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum DurableBy {
    /// Each write by itself (RWF_DSYNC).
    Dsync = 1,
    /// A flush afterwards, which all share that are written by then.
    Flush = 2,
    /// By RWF_DSYNC if it is alone, else by a shared flush.
    #[default]
    DsyncAlone = 3,
}

impl DurableBy {
    const NAMES: [(DurableBy, &'static str); 3] = [
        (DurableBy::Dsync, "dsync"),
        (DurableBy::Flush, "flush"),
        (DurableBy::DsyncAlone, "dsync_alone"),
    ];

    /// The way with this number.
    pub fn from_number(number: u32) -> Option<DurableBy> {
        Self::NAMES.into_iter().map(|(way, _)| way).find(|way| *way as u32 == number)
    }

    /// The word that configurations and people use for it.
    pub fn word(self) -> &'static str {
        Self::NAMES.into_iter().find(|(way, _)| *way == self).map_or("?", |(_, word)| word)
    }
}
