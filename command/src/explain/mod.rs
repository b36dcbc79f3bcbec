//! `heliostat explain`: how the connections and files of a process travel, and why.
//!
//! The control plane tells what stubs report. What the kernel knows besides is added here: who is at
//! the other end where no session is, why a process has no session, and which processes it has
//! started.

mod cause;
mod executors;
mod listeners;
mod offload;
mod outside;
mod text;
mod tree;

use std::path::Path;

use heliostat_abi::code::Code;
use heliostat_abi::place::{Surroundings, SOCKET_VARIABLE};
use heliostat_abi::session::record::Request;
use heliostat_base::packet::PacketSocket;
use heliostat_client::ControlError;
use rustix::process::geteuid;
use serde_json::{json, Value};

pub use cause::Cause;

use crate::args::Look;
use crate::client::{ask_on, connect, ClientError};
use crate::place::{meant, of_user};
use crate::proc;
use crate::sealing::private_folder;
use crate::show::{print, ShowError};

/// `heliostat explain`.
pub fn explain(pid: u32, tree: bool, look: &Look) -> Result<(), ShowError> {
    let here = meant(&look.whose).map_err(ShowError::NoPlace)?;
    let is_asked_for = look.whose.user.is_some() || look.whose.place.socket.is_some();
    let answer = explained(pid, &here);
    let answer = match own_place(pid, &here).filter(|_| answer.is_err() && !is_asked_for) {
        Some(there) => match explained_there(pid, &there) {
            // Nobody is there: what was said here stands.
            Err(ShowError::Client(_)) => answer,
            answered => answered,
        },
        None => answer,
    };
    let mut explained = answer.or_else(|error| without_session(pid, tree, error))?;
    let descendants = tree::descendants(pid);
    explained["descendant_count"] = json!(descendants.len());
    if tree {
        explained["descendants"] = tree::explained(&descendants, &here, is_asked_for);
    }
    match look.json {
        true => print(&format!("{explained}\n")),
        false => print(&text::explain_text(&explained)),
    }
}

/// A tree may begin with a process that has none itself, say a shell.
fn without_session(pid: u32, tree: bool, error: ShowError) -> Result<Value, ShowError> {
    match error {
        ShowError::NoSession { why, .. } if tree && proc::user(pid).is_some() => {
            let program = proc::name(pid).unwrap_or_default();
            Ok(json!({ "pid": pid, "program": program, "no_session": why }))
        }
        error => Err(error),
    }
}

/// What is known of one process, by the control plane at `here`.
fn explained(pid: u32, here: &Surroundings) -> Result<Value, ShowError> {
    let refused = refused_of(pid, here);
    let connection = connect(here).map_err(ShowError::Client);
    let answer = connection.and_then(|connection| asked(pid, here, &connection));
    let mut explained = match (answer, &refused) {
        // Sealed without a stub that speaks to the control plane.
        (Err(_), Some(_)) => json!({ "pid": pid, "program": "sealed" }),
        (answer, _) => answer?,
    };
    if let Some(refused) = refused {
        explained["refused"] = json!(refused.lines().collect::<Vec<_>>());
    }
    Ok(explained)
}

/// Asks about one process on a connection that may be asked on again.
fn asked(pid: u32, here: &Surroundings, on: &PacketSocket) -> Result<Value, ShowError> {
    let socket = here.socket_path();
    match ask_on(on, &Request::Explain { pid }) {
        Ok(text) => {
            let mut explained = serde_json::from_str(&text).map_err(ShowError::Json)?;
            outside::name_others(&mut explained, pid, &socket);
            executors::name_them(&mut explained, pid);
            Ok(explained)
        }
        Err(ClientError::Control(ControlError::Refused { code: Code::NotFound, .. })) => {
            Err(ShowError::NoSession { pid, why: Cause::of(pid, &socket).to_string() })
        }
        Err(error) => Err(ShowError::Client(error)),
    }
}

/// The control plane that the process was started with, if it is another one. For root it may be
/// another user's, who then has to be the one that serves it; root without CAP_SYS_PTRACE, as in
/// containers, may not read what the process was told, and looks at that user's default place.
fn own_place(pid: u32, here: &Surroundings) -> Option<Surroundings> {
    let uid = proc::user(pid).filter(|uid| geteuid().is_root() || *uid == geteuid().as_raw())?;
    if !proc::is_open(pid) {
        return of_user(uid).ok().filter(|found| found.socket_path() != here.socket_path());
    }
    let socket = proc::variable(pid, SOCKET_VARIABLE)?;
    let is_other = Path::new(&socket) != here.socket_path();
    is_other.then_some(Surroundings { socket: Some(socket), runtime: None, uid })
}

fn explained_there(pid: u32, there: &Surroundings) -> Result<Value, ShowError> {
    let mut explained = explained(pid, there)?;
    explained["control_plane"] = json!(there.socket_path());
    Ok(explained)
}

/// What was refused to a sealed process so far, a line for each kind; none for one that is not.
/// What another user's supervisors have written is not read: it could be anything, or a link.
fn refused_of(pid: u32, here: &Surroundings) -> Option<String> {
    if here.uid != geteuid().as_raw() {
        return None;
    }
    let folder = private_folder(&here.socket_path());
    heliostat_supervisor::report::of_process(&folder, i32::try_from(pid).ok()?)
}
