//! Socket options that do not pass by their number (`filter::options`).
//!
//! A membership sends packets that carry the group's address: it is made for a group that may be
//! sent to or is named to be listened at, by the supervisor, from what it has read. All others are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use heliostat_base::sys::Errno;
use heliostat_control::policy::record::Ask;
use rustix::net::sockopt;

use super::address::{self, Address};
use super::socket::Socket;
use crate::call::{Answer, Call, DONE};
use crate::errno::errno;

/// Sources: linux/in.h and linux/in6.h.
const IP_ADD_MEMBERSHIP: i32 = 35;
const IPV6_JOIN_GROUP: i32 = 20;
const MCAST_JOIN_GROUP: i32 = 42;
/// `ip_mreq`, `ip_mreqn`, `ipv6_mreq`, and where the address of a `group_req` begins.
const V4_BYTES: usize = 8;
const V4_INDEX_BYTES: usize = 12;
const V6_BYTES: usize = 20;
const GROUP_AT: usize = 8;
const GROUP_BYTES: usize = 136;

/// A group and where it is joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Membership {
    group: IpAddr,
    /// The address of the interface, for IPv4, and its number; neither is any.
    own: Ipv4Addr,
    interface: u32,
}

/// setsockopt(2) of what the filter asks about.
pub fn set(call: &Call<'_>) -> Answer {
    let (level, option) = (call.int(1), call.int(2));
    match (level, option) {
        (libc::IPPROTO_IP, IP_ADD_MEMBERSHIP | MCAST_JOIN_GROUP)
        | (libc::IPPROTO_IPV6, IPV6_JOIN_GROUP | MCAST_JOIN_GROUP) => join(call, option),
        (libc::SOL_SOCKET | libc::IPPROTO_TCP | libc::IPPROTO_UDP, _)
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => {
            call.note_call(&format!("option {option} of level {level}"));
            Err(Errno(libc::EPERM))
        }
        _ => {
            call.note_call(&format!("options of level {level}"));
            Err(Errno(libc::ENOPROTOOPT))
        }
    }
}

fn join(call: &Call<'_>, option: i32) -> Answer {
    let socket = Socket::of(call, call.int(0), libc::EPERM)?;
    let mut bytes = [0; GROUP_BYTES];
    let length = usize::try_from(call.int(4)).map_err(|_| Errno(libc::EINVAL))?;
    let bytes = &mut bytes[..length.min(GROUP_BYTES)];
    call.read(3, bytes)?;
    let Membership { group, own, interface } = membership(option, bytes)?;
    let is_granted = call.supervisor.policy.may_join(group);
    call.note_ask(Ask::Connect(SocketAddr::new(group, port(&socket))), is_granted);
    if !is_granted {
        return Err(Errno(libc::EPERM));
    }
    call.check()?;
    let joined = match group {
        IpAddr::V4(group) if own.is_unspecified() => {
            sockopt::set_ip_add_membership_with_ifindex(&socket.fd, &group, &own, interface)
        }
        IpAddr::V4(group) => sockopt::set_ip_add_membership(&socket.fd, &group, &own),
        IpAddr::V6(group) => sockopt::set_ipv6_add_membership(&socket.fd, &group, interface),
    };
    joined.map_err(errno)?;
    DONE
}

/// The port that a group's members use, most often their own, for whoever is to grant it.
fn port(socket: &Socket) -> u16 {
    let own =
        rustix::net::getsockname(&socket.fd).ok().and_then(|own| SocketAddr::try_from(own).ok());
    own.map_or(1, |own| own.port().max(1))
}

/// What the bytes of an option say. EINVAL for fewer than it takes.
fn membership(option: i32, bytes: &[u8]) -> Result<Membership, Errno> {
    let invalid = Errno(libc::EINVAL);
    let four = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied();
    let any = Ipv4Addr::UNSPECIFIED;
    if option == MCAST_JOIN_GROUP {
        let interface = u32::from_ne_bytes(four(0).ok_or(invalid)?);
        let whole = bytes.get(GROUP_AT..GROUP_BYTES).ok_or(invalid)?;
        let Address::Inet(group) = address::parse(whole)? else { return Err(invalid) };
        return Ok(Membership { group: group.ip(), own: any, interface });
    }
    if option == IPV6_JOIN_GROUP {
        let group: [u8; 16] = *bytes.first_chunk().ok_or(invalid)?;
        let interface = four(V6_BYTES - 4).map(u32::from_ne_bytes).ok_or(invalid)?;
        return Ok(Membership { group: Ipv6Addr::from(group).into(), own: any, interface });
    }
    let (group, own) = (four(0).ok_or(invalid)?, four(V4_BYTES - 4).ok_or(invalid)?);
    let interface = four(V4_INDEX_BYTES - 4).map_or(0, u32::from_ne_bytes);
    Ok(Membership { group: Ipv4Addr::from(group).into(), own: own.into(), interface })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_membership_says_its_group_and_where() {
        let mut v4 = vec![224, 0, 0, 251, 10, 0, 0, 1];
        let read = |option, bytes: &[u8]| membership(option, bytes);
        let group = IpAddr::from([224, 0, 0, 251]);
        let own = Ipv4Addr::new(10, 0, 0, 1);
        let found = read(IP_ADD_MEMBERSHIP, &v4);
        assert_eq!(found, Ok(Membership { group, own, interface: 0 }));
        v4.extend(7u32.to_ne_bytes());
        let found = read(IP_ADD_MEMBERSHIP, &v4);
        assert_eq!(found, Ok(Membership { group, own, interface: 7 }));
        let six = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
        let mut bytes = six.octets().to_vec();
        assert_eq!(read(IPV6_JOIN_GROUP, &bytes), Err(Errno(libc::EINVAL)));
        bytes.extend(3u32.to_ne_bytes());
        let any = Ipv4Addr::UNSPECIFIED;
        let found = read(IPV6_JOIN_GROUP, &bytes);
        assert_eq!(found, Ok(Membership { group: six.into(), own: any, interface: 3 }));
    }

    #[test]
    fn a_group_request_has_its_address_after_the_interface() {
        let mut bytes = vec![0; GROUP_BYTES];
        bytes[0] = 2;
        bytes[GROUP_AT..GROUP_AT + 8].copy_from_slice(&[2, 0, 0, 0, 239, 1, 2, 3]);
        let group = IpAddr::from([239, 1, 2, 3]);
        let wanted = Membership { group, own: Ipv4Addr::UNSPECIFIED, interface: 2 };
        assert_eq!(membership(MCAST_JOIN_GROUP, &bytes), Ok(wanted));
        let short = membership(MCAST_JOIN_GROUP, &bytes[..GROUP_BYTES - 1]);
        assert_eq!(short, Err(Errno(libc::EINVAL)));
    }
}
