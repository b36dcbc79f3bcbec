//! `heliostat top`: the status, drawn again every second.

use std::time::Duration;

use heliostat_abi::session::record::Request;
use serde_json::Value;

use crate::args::ControlPlace;
use crate::client::ask;
use crate::place::surroundings;
use crate::show::{print, ShowError};
use crate::status::status_text;

/// Time between two pictures.
const PERIOD: Duration = Duration::from_secs(1);
/// Back to the first cell and clear what follows (source: ECMA-48).
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shows the status until the terminal goes or the control plane ends.
pub fn top(place: &ControlPlace) -> Result<(), ShowError> {
    let here = surroundings(place);
    loop {
        let text = ask(&here, &Request::Status)?;
        let status: Value = serde_json::from_str(&text).map_err(ShowError::Json)?;
        print(&format!("{CLEAR}{}", status_text(&status)))?;
        std::thread::sleep(PERIOD);
    }
}
