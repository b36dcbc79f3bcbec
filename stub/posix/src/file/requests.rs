//! What mapped files ask of the control plane: a lease, and its end.

use heliostat_abi::code::{Code, Unmapped};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_backend_lease::reader::Promise;
use heliostat_base::fd::OwnedFd;
use heliostat_client::session;

/// A file under a lease.
pub(super) struct Lease {
    pub id: ObjectId,
    /// The session that it belongs to, as in `session::Standing`.
    pub epoch: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// The file, opened anew: what may be mapped.
    pub file: OwnedFd,
    /// Active.
    pub active: Promise,
    /// The control plane lives.
    pub life: Promise,
}

/// Asks for a lease on an open file.
pub(super) fn lease(fd: i32) -> Result<Lease, Unmapped> {
    let (epoch, node) = session::lasting().map_err(|_| Unmapped::NoControl)?;
    let life = promise(node.life().ok_or(Unmapped::NoControl)?);
    let asked = session::ask_in(epoch, &Request::Lease, &[fd]);
    let (reply, mut fds) = asked.map_err(|_| Unmapped::NoControl)?;
    match (reply, fds.pop()) {
        (Reply::Leased { lease: id, bytes }, Some(file)) => {
            let active = promise(node.lease(id));
            Ok(Lease { id, epoch, bytes, file, active, life })
        }
        (Reply::NotLeased { reason }, _) => Err(reason),
        (Reply::Refused { code: Code::Denied, .. }, _) => Err(Unmapped::Denied),
        (Reply::Refused { code: Code::Full, .. }, _) => Err(Unmapped::Full),
        _ => Err(Unmapped::NoControl),
    }
}

fn promise((word, value): (&'static std::sync::atomic::AtomicU32, u32)) -> Promise {
    Promise { word, value }
}

/// Gives a lease back, if the session that has it still stands.
pub(super) fn end_lease(id: ObjectId, epoch: u64) {
    let _ = session::ask_in(epoch, &Request::EndLease { lease: id }, &[]);
}
