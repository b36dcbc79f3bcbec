//! Regions of running programs, as this command finds them: listed by the control plane, attached
//! to as by any consumer.

use heliostat_abi::session::record::Request;
use heliostat_abi::snapshot::region::OWN_USER;
use heliostat_stub_snapshot::{attach_of, Attachment};
use rustix::event::{poll, PollFd, PollFlags};
use serde_json::Value;

use super::error::SnapshotError;
use crate::args::ControlPlace;
use crate::client;
use crate::place::surroundings;
use crate::show::ShowError;

/// A region as the control plane lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name, without `/snapshot/`.
    pub name: String,
    /// The user it belongs to.
    pub uid: u32,
    /// Counts the producers of the name.
    pub generation: u64,
    /// Its producer.
    pub pid: u32,
    /// Bytes of memory promised to it: pool and table.
    pub promised_bytes: u64,
    /// Processes attached to it.
    pub consumers: Vec<u32>,
}

impl Listed {
    fn read(entry: &Value) -> Self {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let name = entry["name"].as_str().unwrap_or_default();
        let consumers = entry["consumers"].as_array().map_or(&[][..], Vec::as_slice);
        Self {
            name: plain_name(name).to_owned(),
            uid: number(&entry["uid"]) as u32,
            generation: number(&entry["generation"]),
            pid: number(&entry["pid"]) as u32,
            promised_bytes: number(&entry["bytes"]),
            consumers: consumers.iter().map(|it| number(&it["pid"]) as u32).collect(),
        }
    }
}

/// The regions that the control plane shows to this user.
pub fn listed(place: &ControlPlace) -> Result<Vec<Listed>, SnapshotError> {
    let text = client::ask(&surroundings(place), &Request::Status)?;
    let status: Value = serde_json::from_str(&text).map_err(ShowError::Json)?;
    let regions = status["regions"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(regions.iter().map(Listed::read).collect())
}

/// Attaches to a region of `owner`, or of this user.
pub fn attached(
    place: &ControlPlace,
    name: &str,
    owner: Option<u32>,
) -> Result<Attachment, SnapshotError> {
    open_session(place)?;
    attach_of(name, owner.unwrap_or(OWN_USER))
        .map_err(|error| SnapshotError::Region { name: name.to_owned(), error })
}

/// A region's name without `/snapshot/`.
pub fn plain_name(name: &str) -> &str {
    name.strip_prefix(heliostat_abi::snapshot::region::PREFIX).unwrap_or(name)
}

/// Sleeps until there is a version newer than `number`: true, or until there never will be one.
pub fn await_newer(region: &Attachment, number: u64) -> bool {
    loop {
        let is_over = region.is_closed();
        if region.latest_number() > number || is_over {
            return region.latest_number() > number;
        }
        let Some(bell) = region.bell_fd() else {
            region.wait(number, None);
            continue;
        };
        if !region.arm(number) {
            // Interrupted or not: what counts is looked at anew.
            let _ = poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], None);
        }
        if !region.drain() {
            return region.latest_number() > number;
        }
    }
}

/// Tells the stub where the control plane is, once that is known to be one to be trusted.
pub fn open_session(place: &ControlPlace) -> Result<(), SnapshotError> {
    Ok(client::open_session(place)?)
}
