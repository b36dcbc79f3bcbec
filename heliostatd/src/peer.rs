//! Who is at the other end of a control connection, by the kernel's word only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use heliostat_base::process::peer_credentials;
use heliostat_control::rights::Subject;
use heliostat_service_net::Namespace;

use crate::kernel;

/// The process that made a connection.
pub struct Peer {
    /// Its number in the control plane's pid namespace, 0 when it is not visible there.
    pub pid: u32,
    /// Its user and groups.
    pub subject: Subject,
    /// The network namespace of its socket.
    pub namespace: Namespace,
    /// The process itself, where the kernel can name it (Linux 6.5 and later). Openers that act in
    /// its name share it.
    pub pidfd: Option<Arc<OwnedFd>>,
}

/// The user of the process that made a connection.
pub fn user_of(socket: BorrowedFd<'_>) -> io::Result<u32> {
    peer_credentials(socket.as_raw_fd()).map(|it| it.uid).map_err(os_error)
}

impl Peer {
    /// Asks the kernel.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let credentials = peer_credentials(socket.as_raw_fd()).map_err(os_error)?;
        let groups = kernel::peer_groups(socket)?;
        let subject = Subject { uid: credentials.uid, gid: credentials.gid, groups };
        let namespace = Namespace(kernel::namespace_cookie(socket)?);
        let pidfd = kernel::peer_process(socket).ok().map(Arc::new);
        Ok(Peer { pid: credentials.pid.max(0) as u32, subject, namespace, pidfd })
    }

    /// Name of the namespace as other tools show it, `net:[INODE]`; for people only.
    pub fn namespace_name(&self) -> String {
        std::fs::read_link(format!("/proc/{}/ns/net", self.pid))
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_else(|_| format!("cookie:{}", self.namespace.0))
    }
}

fn os_error(errno: heliostat_base::sys::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}
