//! How a write is made durable on a device, and in which units it is driven.

use crate::wire::{Reader, WireError};

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

pub(super) fn take_durable_by(r: &mut Reader<'_>) -> Result<DurableBy, WireError> {
    let number = r.u32();
    let wrong = WireError::Field { name: "way of durable writes", found: u64::from(number) };
    DurableBy::from_number(number).ok_or(wrong)
}

/// What others divide by.
pub(super) fn take_unit(r: &mut Reader<'_>, name: &'static str) -> Result<u32, WireError> {
    match r.u32() {
        unit if unit.is_power_of_two() => Ok(unit),
        found => Err(WireError::Field { name, found: u64::from(found) }),
    }
}
