//! Proof of listening: what the kernel says of a socket that a client showed.
//!
//! The order of the questions matters: the descriptor may be anything, and some files answer
//! even fstat(2) when their owner pleases. The first question is one that only a socket can
//! answer, and the kernel alone answers for it.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use heliostat_abi::code::Code;
use heliostat_abi::name::NetAddress;
use heliostat_service_net::{Endpoint, Namespace, Proof};
use rustix::net::{ipproto, sockopt, AddressFamily, SocketType};

use crate::kernel;

/// Why a descriptor is no proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoProof {
    /// It is not a TCP socket.
    NotTcp,
    /// It is one, but does not listen.
    NotListening,
    /// The kernel did not answer a question about it.
    Kernel(&'static str),
}

impl NoProof {
    /// The code of the answer to the client.
    pub fn code(self) -> Code {
        match self {
            Self::NotTcp => Code::BadRecord,
            Self::NotListening => Code::BadState,
            Self::Kernel(_) => Code::Internal,
        }
    }
}

impl std::fmt::Display for NoProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotTcp => write!(f, "the descriptor shown is not a TCP socket"),
            Self::NotListening => write!(f, "the socket shown does not listen"),
            Self::Kernel(question) => write!(f, "the kernel did not answer {question}"),
        }
    }
}

/// Asks the kernel where a shown socket listens.
pub fn examine(shown: BorrowedFd<'_>) -> Result<Proof, NoProof> {
    let is_stream = sockopt::socket_type(shown) == Ok(SocketType::STREAM);
    let domain = sockopt::socket_domain(shown).map_err(|_| NoProof::NotTcp)?;
    let is_internet = domain == AddressFamily::INET || domain == AddressFamily::INET6;
    let is_tcp = matches!(sockopt::socket_protocol(shown), Ok(Some(ipproto::TCP)));
    if !is_stream || !is_internet || !is_tcp {
        return Err(NoProof::NotTcp);
    }
    if sockopt::socket_acceptconn(shown) != Ok(true) {
        return Err(NoProof::NotListening);
    }
    let v6_only = domain == AddressFamily::INET6
        && sockopt::ipv6_v6only(shown).map_err(|_| NoProof::Kernel("IPV6_V6ONLY"))?;
    let namespace =
        kernel::namespace_cookie(shown).map_err(|_| NoProof::Kernel("the namespace"))?;
    let status = rustix::fs::fstat(shown).map_err(|_| NoProof::Kernel("the owner"))?;
    let socket = sockopt::socket_cookie(shown).map_err(|_| NoProof::Kernel("the cookie"))?;
    let endpoint = Endpoint { namespace: Namespace(namespace), address: bound_address(shown)? };
    Ok(Proof { endpoint, v6_only, owner_uid: status.st_uid, socket })
}

/// Closes a socket that was found listening. Such a close does not wait; should its owner turn it
/// into a connection in this very moment, the close must not linger either.
pub fn close(listening: OwnedFd) {
    // Where it fails there is nothing to linger for.
    let _ = sockopt::set_socket_linger(&listening, None);
}

fn bound_address(socket: BorrowedFd<'_>) -> Result<NetAddress, NoProof> {
    let question = NoProof::Kernel("getsockname");
    let any = rustix::net::getsockname(socket).map_err(|_| question)?;
    SocketAddr::try_from(any).map(NetAddress::new).map_err(|_| question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_listening_socket_proves_its_bound_address() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let proof = examine(socket.as_fd()).unwrap();
        assert_eq!(proof.endpoint.address, NetAddress::new(socket.local_addr().unwrap()));
        assert_eq!(proof.owner_uid, rustix::process::geteuid().as_raw());
        assert!(!proof.v6_only);
    }

    #[test]
    fn anything_else_proves_nothing() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(examine(client.as_fd()), Err(NoProof::NotListening));
        assert_eq!(examine(datagram.as_fd()), Err(NoProof::NotTcp));
        assert_eq!(examine(file.as_fd()), Err(NoProof::NotTcp));
    }
}
