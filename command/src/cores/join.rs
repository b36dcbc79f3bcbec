//! A program that begins while cores are parted goes where it belongs, before its first instruction.

use heliostat_abi::cores::{CoresReply, CoresRequest, CoresState};
use heliostat_abi::place::{Surroundings, EXAMINER_VARIABLE};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_backend_cores::allowed_here;
use heliostat_base::affinity::{restrict, CpuSet};
use heliostat_client::session;

use super::place::journal_path;
use super::CoresError;

/// Puts this process, which becomes the program, where applications go, and says that it is one.
/// Without a partition it costs one look at a file. What cannot be done leaves the program where it
/// is: the control plane finds it later. Returns the kernel cores, of which there are none without one.
pub fn join(here: &Surroundings) -> Vec<usize> {
    if !journal_path(here).exists() {
        return Vec::new();
    }
    session::configure(here.socket_path().to_string_lossy().into_owned(), "heliostat".into());
    let Ok(state) = ask(CoresRequest::Join) else { return Vec::new() };
    let is_parted = !state.kernel.is_empty() || !state.interrupt.is_empty();
    if is_parted {
        take_place(&state);
    }
    state.kernel.iter().collect()
}

/// Who has a place of his own keeps it. It may be where applications go: what begins this is then no
/// program under Heliostat, from which it could have come.
fn take_place(state: &CoresState) {
    if state.all.is_within(&allowed_here()) {
        let _ = restrict(0, &state.application.iter().collect::<CpuSet>());
    } else if std::env::var_os(EXAMINER_VARIABLE).is_none() {
        // Not known, it is widened with all others.
        let _ = ask(CoresRequest::Keep);
    }
}

/// Asks the control plane, which is known to the session.
pub fn ask(request: CoresRequest) -> Result<CoresState, CoresError> {
    session::check_alive();
    let (reply, _) = session::ask(&Request::Own(request.encode()), &[])?;
    match reply {
        Reply::Own(own) => match CoresReply::decode(&own) {
            Ok(CoresReply::State(state)) => Ok(state),
            Err(_) => Err(CoresError::Corrupt),
        },
        refused @ Reply::Refused { .. } => {
            Err(heliostat_client::ControlError::from(&refused).into())
        }
        _ => Err(CoresError::Corrupt),
    }
}
