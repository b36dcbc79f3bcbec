//! The stub's own connection: from inside the seal to the control plane, restricted first.
//!
//! The program's socket is not connected at all: a new one is, restricted, and only then put in
//! its place. So no thread of the program ever holds a connection that may ask everything.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use heliostat_abi::code::Code;
use heliostat_abi::limits::{DESTINATIONS_MAX, REGION_SCOPES_MAX};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::{Destination, Services};
use heliostat_abi::snapshot::region_scope::RegionScope;
use heliostat_base::packet::PacketSocket;
use heliostat_base::sys::Errno;
use heliostat_client::{exchange, ControlError};
use heliostat_control::policy::{Host, NamePattern, Policy};

/// How long the control plane may take for an answer: the stub waits no longer either.
const DEADLINE_MS: u64 = 500;

/// Where the control plane is, for the stub of a sealed program.
#[derive(Debug, Default)]
pub struct ControlPlane {
    socket: Option<PathBuf>,
    destinations: Vec<Destination>,
    regions: Vec<RegionScope>,
    services: Services,
    /// The user whose it takes the program's connections to be.
    own_user: u32,
    /// It does not know restrictions: nobody is connected then.
    is_too_old: AtomicBool,
}

/// A restricted connection, which may be handed over.
pub struct RestrictedSocket(PacketSocket);

impl RestrictedSocket {
    /// What is handed over.
    pub fn socket(&self) -> &PacketSocket {
        &self.0
    }
}

impl ControlPlane {
    /// The control plane at `socket`, if there is one, for programs with this policy.
    pub fn new(socket: Option<PathBuf>, policy: &Policy) -> Self {
        Self {
            socket,
            destinations: destinations(policy),
            regions: policy.all_scopes().take(REGION_SCOPES_MAX).cloned().collect(),
            services: services(policy),
            own_user: rustix::process::geteuid().as_raw(),
            is_too_old: AtomicBool::new(false),
        }
    }

    /// The user as whom it knows all processes of the program.
    pub fn own_user(&self) -> u32 {
        self.own_user
    }

    /// Whether a unix socket's path is the control plane's.
    pub fn is_at(&self, path: &[u8]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        self.socket.as_deref().is_some_and(|own| own.as_os_str().as_bytes() == path)
    }

    /// A connection that may ask for what the policy gives, and nothing else. ECONNREFUSED if
    /// there is no control plane or it cannot restrict.
    pub fn connect(&self, process: i32) -> Result<RestrictedSocket, Errno> {
        let refused = Errno(libc::ECONNREFUSED);
        let path = self.socket.as_deref().and_then(Path::to_str).ok_or(refused)?;
        if self.is_too_old.load(Ordering::Relaxed) {
            return Err(refused);
        }
        let socket = PacketSocket::connect(path, DEADLINE_MS)?;
        let restricted = self.restrict(&socket, process);
        let is_too_old = restricted.is_err_and(|error| does_not_know(&error));
        self.is_too_old.store(is_too_old, Ordering::Relaxed);
        restricted.map(|()| RestrictedSocket(socket)).or(Err(refused))
    }

    fn restrict(&self, socket: &PacketSocket, process: i32) -> Result<(), ControlError> {
        for destination in &self.destinations {
            ask(socket, &Request::Allow { destination: *destination })?;
        }
        for scope in &self.regions {
            ask(socket, &Request::AllowRegions { scope: scope.clone() })?;
        }
        let (services, pid) = (self.services, process.unsigned_abs());
        ask(socket, &Request::Restrict { services, pid })
    }
}

/// Asks what is answered by Done.
fn ask(socket: &PacketSocket, request: &Request) -> Result<(), ControlError> {
    match exchange(socket, request, &[], 1)?.0 {
        Reply::Done => Ok(()),
        other => Err((&other).into()),
    }
}

/// Whether the control plane does not know the request. What is refused for another reason (a limit
/// that is reached) may be had the next time.
fn does_not_know(error: &ControlError) -> bool {
    matches!(error, ControlError::Refused { code: Code::BadRecord | Code::BadVersion, .. })
}

/// What the program may use. A control plane that does not know a service is asked for it only where
/// the policy grants it.
fn services(policy: &Policy) -> Services {
    let mut services = Services::STREAMS.and(Services::FILES);
    if policy.delegate {
        services = services.and(Services::DELEGATION);
    }
    if !policy.regions.is_empty() {
        services = services.and(Services::SNAPSHOTS);
    }
    if !policy.memory.is_empty() {
        services = services.and(Services::MEMORY);
    }
    if !policy.locks.is_empty() {
        services = services.and(Services::LOCKS);
    }
    if !policy.calls.is_empty() {
        services = services.and(Services::CALLS);
    }
    if !policy.areas.is_empty() {
        services = services.and(Services::AREAS);
    }
    services
}

/// What of a policy can be said beforehand: addresses, not names. The rest stays native.
fn destinations(policy: &Policy) -> Vec<Destination> {
    let each = policy.connect.iter().flat_map(|endpoint| {
        let hosts = match &endpoint.host {
            Host::Any => vec![None],
            Host::Ip(ip) => vec![Some(*ip)],
            Host::Name(NamePattern::Exact(name)) if name == "localhost" => {
                vec![Some([127, 0, 0, 1].into()), Some([0, 0, 0, 0, 0, 0, 0, 1].into())]
            }
            Host::Name(_) => Vec::new(),
        };
        hosts.into_iter().map(|host| Destination { host, ports: endpoint.ports })
    });
    each.take(DESTINATIONS_MAX).collect()
}
