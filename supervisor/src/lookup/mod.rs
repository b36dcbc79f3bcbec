//! Look-ups of names: which may be asked, and which addresses they gave.
//!
//! A program's resolver connects to a name server of /etc/resolv.conf and gets the supervisor's
//! forwarder instead, which passes on what is granted (`forward`), as a message written anew
//! (`question`). Addresses that came back count for connections granted by name; so do those
//! that the supervisor itself finds for such a name, in /etc/hosts too.

mod forward;
mod learned;
pub mod question;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use heliostat_base::sys::Errno;
use heliostat_control::policy::{NamePattern, Policy};

use forward::Forwarder;
use learned::Learned;

/// Name servers that libc looks at (source: MAXNS, resolv.h).
const SERVERS_MAX: usize = 3;
const PORT: u16 = 53;

/// What is to be told of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameEvent {
    /// It was asked for, and granted or not.
    Asked(bool),
    /// It has this address.
    Has(IpAddr),
}

/// Hears of names.
pub type Hearer = Box<dyn Fn(&str, NameEvent) + Send + Sync>;

/// What the forwarder and the calls share.
struct LookupState {
    policy: Policy,
    servers: Vec<SocketAddr>,
    learned: Learned,
    told: Hearer,
}

impl LookupState {
    fn may(&self, name: &str) -> bool {
        let granted = self.policy.may_look_up(name);
        (self.told)(name, NameEvent::Asked(granted));
        granted
    }
}

/// Look-ups of one sealed program.
pub struct Lookups {
    state: Arc<LookupState>,
    /// Started with the first connection; none if that failed.
    forwarder: OnceLock<Option<Forwarder>>,
}

impl Lookups {
    /// With the name servers in the text of resolv.conf(5).
    pub fn new(policy: &Policy, resolv_conf: &str, told: Hearer) -> Self {
        let servers = servers(resolv_conf);
        let learned = Learned::default();
        let state = LookupState { policy: policy.clone(), servers, learned, told };
        Self { state: Arc::new(state), forwarder: OnceLock::new() }
    }

    /// Whether any name may be looked up.
    pub fn are_any(&self) -> bool {
        let policy = &self.state.policy;
        let named = |port| policy.connect_names(port).next().is_some();
        !policy.lookup.is_empty() || policy.connect.iter().any(|one| named(one.ports.0))
    }

    /// Whether an address is that of a name server.
    pub fn is_server(&self, to: SocketAddr) -> bool {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        self.state.servers.contains(&to)
    }

    /// Where a resolver is connected to instead of its name server. ECONNREFUSED if there is no
    /// forwarder.
    pub fn forwarder(&self, stream: bool, v6: bool) -> Result<SocketAddr, Errno> {
        let start = || Forwarder::start(&self.state).ok();
        let forwarder = self.forwarder.get_or_init(start).as_ref();
        let port = forwarder.ok_or(Errno(libc::ECONNREFUSED))?.port(stream);
        let own = Ipv4Addr::LOCALHOST;
        let ip = if v6 { IpAddr::V6(own.to_ipv6_mapped()) } else { IpAddr::V4(own) };
        Ok(SocketAddr::new(ip, port))
    }

    /// Lets a socket of the program's talk to the forwarder.
    pub fn admit(&self, own: SocketAddr) {
        if let Some(Some(forwarder)) = self.forwarder.get() {
            forwarder.admit(SocketAddr::new(own.ip().to_canonical(), own.port()));
        }
    }

    /// The question in a datagram to a name server, as it may be passed on; nothing for what is
    /// none, or is not granted.
    pub fn granted_question(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let question = question::Question::read(bytes)?;
        self.state.may(&question.name).then(|| question.unconnected().message()).flatten()
    }

    /// Whether a name that may be connected to leads to an address. May ask name servers.
    pub fn leads(&self, name: &NamePattern, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        match name {
            NamePattern::Exact(own) => {
                self.state.learned.leads(name, ip) || self.state.learned.resolve(own).contains(&ip)
            }
            // Whoever serves a name below it says what its address is, and may say this machine's.
            NamePattern::Any | NamePattern::Below(_) => {
                is_public(ip) && self.state.learned.leads(name, ip)
            }
        }
    }
}

/// Whether an address is none of this machine's or of a network around it (RFC 6890).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [first, second, third, _] = v4.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            let is_near = v4.is_loopback() || v4.is_private() || v4.is_link_local() || is_shared;
            let is_of_tests = first == 198 && second & 0xfe == 18;
            let is_of_protocols = (first, second, third) == (192, 0, 0) || is_of_tests;
            !(is_near || is_of_protocols || first == 0 || first >= 240 || v4.is_multicast())
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            // Unique local, link-local and, of old, site-local addresses.
            let is_near = v6.is_loopback() || first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80;
            let leads_near = carried(v6).is_some_and(|v4| !is_public(v4.into()));
            !(is_near || leads_near || v6.is_unspecified() || v6.is_multicast())
        }
    }
}

/// The IPv4 address that a translator or a tunnel is told by an IPv6 one (RFC 6052, RFC 3056).
fn carried(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => (high, low),
        [0x64, 0xff9b, 1, ..] => return Some(Ipv4Addr::UNSPECIFIED),
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

fn servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let fields = |line: &str| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("nameserver"), Some(address)) => address.parse::<IpAddr>().ok(),
            _ => None,
        }
    };
    let found = resolv_conf.lines().filter_map(fields).map(|ip| ip.to_canonical());
    let mut servers: Vec<_> = found.map(|ip| SocketAddr::new(ip, PORT)).take(SERVERS_MAX).collect();
    if servers.is_empty() {
        // As resolv.conf(5) has it.
        servers.push(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_leads_to_no_address_of_this_machine_or_around_it() {
        let lookups = Lookups::new(&Policy::default(), "", Box::new(|_, _| ()));
        let below = NamePattern::parse("*.example.org").unwrap();
        let exact = NamePattern::parse("a.example.org").unwrap();
        let near =
            ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.1"];
        let near = near.iter().chain(&["::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "::"]);
        let near = near.chain(&["192.0.0.8", "198.19.0.1", "240.0.0.1", "fec0::1", "::10.0.0.1"]);
        let near = near.chain(&["64:ff9b::7f00:1", "64:ff9b:1::1", "2002:a00:1::1"]);
        for ip in near.map(|ip| ip.parse::<IpAddr>().unwrap()) {
            lookups.state.learned.learn("a.example.org", ip);
            assert!(!lookups.leads(&below, ip) && !lookups.leads(&NamePattern::Any, ip), "{ip}");
            assert!(lookups.leads(&exact, ip), "{ip}");
        }
        for ip in ["93.184.216.34", "2606:2800::1", "64:ff9b::5db8:d822"]
            .map(|ip| ip.parse::<IpAddr>().unwrap())
        {
            lookups.state.learned.learn("a.example.org", ip);
            assert!(lookups.leads(&below, ip), "{ip}");
        }
    }

    #[test]
    fn name_servers_are_read_as_libc_reads_them() {
        let text =
            "# nameserver 9.9.9.9\nsearch a\nnameserver 10.0.0.1\nnameserver ::1 \nnameserver x\n";
        let found: Vec<_> = servers(text).iter().map(SocketAddr::to_string).collect();
        assert_eq!(found, ["10.0.0.1:53", "[::1]:53"]);
        assert_eq!(servers(""), ["127.0.0.1:53".parse().unwrap()]);
    }
}
