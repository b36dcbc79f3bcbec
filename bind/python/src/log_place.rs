//! Where a log lies, as Python says it.

use std::path::PathBuf;

use heliostat_stub_log::Place;

use crate::process::claim_session;

/// A file, or an area, of which the control plane is asked.
pub(crate) fn place_of(path: PathBuf) -> Place {
    let place = match path.to_str() {
        Some(text) => text.into(),
        None => path.into(),
    };
    if matches!(place, Place::Area(_)) {
        claim_session();
    }
    place
}
