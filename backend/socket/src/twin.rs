//! A TCP connection that stands in for another: of its family, with its addresses and options.
//!
//! Two connections of one network cannot have the same two ends, so the twin is made in a network
//! namespace of its own, which nobody else ever sees and which lives as long as the twin. Where a
//! process may make none, the twin has the addresses of the first one and other ports.

use std::os::fd::{AsRawFd, RawFd};

use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// What both ends of a TCP connection are called, as the kernel writes it.
type Name = ([u8; 28], u32);

const REUSE: (i32, i32) = (libc::SOL_SOCKET, libc::SO_REUSEADDR);

/// Options that a program may have set and would ask for again: level, name, bytes.
const OPTIONS: [(i32, i32, u32); 14] = [
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 4),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 4),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 4),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4),
    (libc::SOL_SOCKET, libc::SO_LINGER, 8),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO, 16),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4),
    (libc::IPPROTO_TCP, libc::TCP_CORK, 4),
    (libc::IPPROTO_IP, libc::IP_TOS, 4),
];

/// A twin of the connection of `fd`: the end that stands in for it, and the far end. The calling
/// process leaves its network namespace: it is one that does nothing else.
///
/// # Errors
/// No connection, or the kernel refuses one more.
pub fn make(fd: RawFd) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (local, peer) = (name(Sysno::getsockname, fd)?, name(Sysno::getpeername, fd)?);
    let inside = enter_own_network(&[&local, &peer]).and_then(|()| connect(&local, &peer));
    let (near, far) = match inside {
        Ok(pair) => pair,
        Err(_) => connect(&without_port(local), &without_port(peer))?,
    };
    copy_options(fd, near.as_raw_fd());
    // Bytes that are carried wait for no others.
    let _ =
        heliostat_base::call::set_option(far.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    Ok((near, far))
}

fn name(which: Sysno, fd: RawFd) -> Result<Name, Errno> {
    let (mut bytes, mut length) = ([0u8; 28], 28u32);
    let args = [fd as usize, bytes.as_mut_ptr() as usize, &raw mut length as usize, 0, 0, 0];
    // SAFETY: room for the longest address of a TCP socket, and its length.
    check(unsafe { raw(which as usize, args) })?;
    Ok((bytes, length.min(28)))
}

fn without_port((mut bytes, length): Name) -> Name {
    bytes[2..4].fill(0);
    (bytes, length)
}

fn family(name: &Name) -> i32 {
    i32::from(u16::from_ne_bytes([name.0[0], name.0[1]]))
}

fn connect(local: &Name, peer: &Name) -> Result<(OwnedFd, OwnedFd), Errno> {
    let listener = bound(peer)?;
    let at = listener.as_raw_fd() as usize;
    // SAFETY: listen takes no pointer.
    check(unsafe { raw(Sysno::listen as usize, [at, 1, 0, 0, 0, 0]) })?;
    let near = bound(local)?;
    let peer = name(Sysno::getsockname, listener.as_raw_fd())?;
    let to = [near.as_raw_fd() as usize, peer.0.as_ptr() as usize, peer.1 as usize, 0, 0, 0];
    // SAFETY: an address of that length.
    check(unsafe { raw(Sysno::connect as usize, to) })?;
    let from = name(Sysno::getsockname, near.as_raw_fd())?;
    let args = [at, 0, 0, libc::SOCK_CLOEXEC as usize, 0, 0];
    // SAFETY: null pointers, and the fresh number is ours alone.
    let far = unsafe { OwnedFd::adopt(check(raw(Sysno::accept4 as usize, args))? as RawFd) };
    // Anybody of this node may connect while we listen.
    match name(Sysno::getpeername, far.as_raw_fd())? == from {
        true => Ok((near, far)),
        false => Err(Errno(libc::EPERM)),
    }
}

fn bound(name: &Name) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let args = [family(name) as usize, kind as usize, 0, 0, 0, 0];
    // SAFETY: socket takes no pointer, and the fresh number is ours alone.
    let socket = unsafe { OwnedFd::adopt(check(raw(Sysno::socket as usize, args))? as RawFd) };
    let _ = heliostat_base::call::set_option(socket.as_raw_fd(), REUSE.0, REUSE.1, 1);
    let at = [socket.as_raw_fd() as usize, name.0.as_ptr() as usize, name.1 as usize, 0, 0, 0];
    // SAFETY: an address of that length.
    check(unsafe { raw(Sysno::bind as usize, at) })?;
    Ok(socket)
}

fn copy_options(from: RawFd, to: RawFd) {
    for (level, name, bytes) in OPTIONS {
        let (mut value, mut length) = ([0u8; 16], bytes);
        let (value_at, length_at) = (value.as_mut_ptr() as usize, &raw mut length as usize);
        let asked = [from as usize, level as usize, name as usize, value_at, length_at, 0];
        // SAFETY: room for the option's bytes, and its length.
        if check(unsafe { raw(Sysno::getsockopt as usize, asked) }).is_ok() {
            let told = [to as usize, level as usize, name as usize, value_at, length as usize, 0];
            // SAFETY: as many bytes as were just written there.
            let _ = unsafe { raw(Sysno::setsockopt as usize, told) };
        }
    }
}

/// A network namespace with nothing in it but the loopback interface, which has `addresses`.
fn enter_own_network(addresses: &[&Name]) -> Result<(), Errno> {
    let unshare = |flags: i32| {
        // SAFETY: unshare takes no pointer; a process of one thread shares nothing that breaks.
        check(unsafe { raw(Sysno::unshare as usize, [flags as usize, 0, 0, 0, 0, 0]) })
    };
    unshare(libc::CLONE_NEWNET).or_else(|_| unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET))?;
    let any = [0u8; 28];
    let mut inet = any;
    inet[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    let helper = bound(&(inet, 16))?;
    interface(&helper, "lo", libc::SIOCSIFFLAGS, |request| {
        let up = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
        request[16..18].copy_from_slice(&up.to_ne_bytes());
    })?;
    for (number, address) in addresses.iter().filter_map(|name| version_four(name)).enumerate() {
        if address[0] != 127 {
            interface(&helper, &format!("lo:{number}"), libc::SIOCSIFADDR, |request| {
                request[16..18].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                request[20..24].copy_from_slice(&address);
            })?;
        }
    }
    Ok(())
}

/// The address, if it is one of IPv4, also where a socket of IPv6 tells it.
fn version_four(name: &Name) -> Option<[u8; 4]> {
    let at = match family(name) {
        libc::AF_INET => 4,
        _ if name.0[8..20] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] => 20,
        _ => return None,
    };
    name.0[at..at + 4].try_into().ok()
}

/// One ioctl on an interface; a request is 40 bytes, its name the first 16 (source: netdevice(7)).
fn interface(
    socket: &OwnedFd,
    name: &str,
    what: libc::Ioctl,
    fill: impl FnOnce(&mut [u8; 40]),
) -> Result<(), Errno> {
    let mut request = [0u8; 40];
    request[..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
    fill(&mut request);
    let args = [socket.as_raw_fd() as usize, what as usize, request.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: a live request of the kernel's size.
    check(unsafe { raw(Sysno::ioctl as usize, args) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd as StdFd;

    /// In a thread of its own, whose network namespace is its own as well.
    fn twin_of(address: &'static str) {
        let work = move || {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            server.set_nodelay(true).unwrap();
            let (near, far) = make(server.as_raw_fd()).unwrap();
            let mut near = TcpStream::from(StdFd::from(near));
            let mut far = TcpStream::from(StdFd::from(far));
            let same = near.peer_addr().unwrap() == client.local_addr().unwrap();
            assert_eq!(near.peer_addr().unwrap().ip(), client.local_addr().unwrap().ip());
            assert_eq!(same, near.local_addr().unwrap() == server.local_addr().unwrap());
            assert!(near.nodelay().unwrap());
            far.write_all(b"carried").unwrap();
            drop(far);
            let mut heard = String::new();
            near.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "carried");
        };
        std::thread::spawn(work).join().unwrap();
    }

    #[test]
    fn a_twin_has_the_family_the_addresses_and_the_options_of_the_first() {
        twin_of("127.0.0.1:0");
        twin_of("127.0.0.9:0");
        twin_of("[::1]:0");
    }
}
