//! `heliostat revoke` and `heliostat stop`: orders to the control plane.

use heliostat_abi::code::Code;
use heliostat_abi::session::record::Request;
use heliostat_client::ControlError;

use crate::args::ControlOwner;
use crate::client::{ask, ClientError};
use crate::explain::Cause;
use crate::place::meant;
use crate::show::ShowError;

/// Sends a request whose answer is "done".
pub fn tell(whose: &ControlOwner, request: &Request) -> Result<(), ShowError> {
    let here = meant(whose).map_err(ShowError::NoPlace)?;
    match (ask(&here, request), request) {
        (
            Err(ClientError::Control(ControlError::Refused { code: Code::NotFound, .. })),
            Request::Revoke { pid },
        ) => {
            let why = Cause::of(*pid, &here.socket_path()).to_string();
            Err(ShowError::NoSession { pid: *pid, why })
        }
        (answer, _) => answer.map(|_| ()).map_err(ShowError::Client),
    }
}
