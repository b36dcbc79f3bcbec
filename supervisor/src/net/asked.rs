//! What a program asks of the control plane, as its requests pass by: taken down, and counted if the
//! policy does not grant it. Nothing is decided here: the control plane refuses by the restriction of
//! the connection, and what a program makes its requests look like concerns itself alone.

use heliostat_abi::needs::Need;
use heliostat_abi::session::record::{Request, REQUEST_BYTES};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_backend_seal as seal;
use heliostat_control::policy::record::Ask;
use heliostat_control::policy::{RegionNames, RegionRight, RegionScope, Whose};
use rustix::net::{AddressFamily, SocketType};

use super::socket::Socket;
use crate::call::Call;

/// A message that the supervisor sends on this socket.
pub fn note(call: &Call<'_>, socket: &Socket, bytes: &[u8]) {
    if socket.family == AddressFamily::UNIX && socket.kind == SocketType::SEQPACKET {
        note_record(call, bytes);
    }
}

/// A message that the kernel sends, whose `count` parts are listed at `at`: a request is one part.
pub fn note_at(call: &Call<'_>, at: u64, count: u64) {
    let word = |at: u64| {
        let mut bytes = [0; 8];
        let read = seal::read_memory(call.thread(), at, &mut bytes);
        read.ok().map(|()| u64::from_ne_bytes(bytes))
    };
    let (part, length) = (word(at), word(at.wrapping_add(8)));
    let (Some(part), 1, Some(LENGTH)) = (part, count, length) else { return };
    let mut record = [0; REQUEST_BYTES];
    if seal::read_memory(call.thread(), part, &mut record).is_ok() {
        note_record(call, &record);
    }
}

/// As an iovec has it.
const LENGTH: u64 = REQUEST_BYTES as u64;

fn note_record(call: &Call<'_>, bytes: &[u8]) {
    let Ok((request, _)) = Request::decode(bytes) else { return };
    let supervisor = call.supervisor;
    match request {
        Request::Delegate { .. } => {
            call.note_ask(Ask::Delegation, supervisor.policy.delegate);
        }
        Request::Publish { name } => note_region(call, RegionRight::Publish, name, OWN_USER),
        Request::AttachRegion { name, owner } => {
            note_region(call, RegionRight::Attach, name, owner);
        }
        Request::Own(own) => {
            if let Some(Need { right, name: Some(name), owner }) = Need::of(&own) {
                note_region(call, right, name, owner);
            }
        }
        _ => {}
    }
}

fn note_region(call: &Call<'_>, right: RegionRight, name: RegionName, owner: u32) {
    let own = call.supervisor.control.own_user();
    let owner = if owner == OWN_USER { own } else { owner };
    let is_granted = call.supervisor.policy.may_use_region(right, &name, owner, own);
    let whose = if owner == own { Whose::Own } else { Whose::User(owner) };
    let scope = RegionScope { names: RegionNames::One(name), right, whose };
    call.note_ask(Ask::Region(&scope), is_granted);
}
