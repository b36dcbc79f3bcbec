//! Judges addresses for the loops, by the rules in force and what a session is confined to.

use std::sync::Arc;

use heliostat_abi::listener::Rule as ShareRule;
use heliostat_abi::name::NetAddress;
use heliostat_abi::socket::Access;
use heliostat_control::config::SharedAddresses;
use heliostat_control::rights::{Right, Subject};
use heliostat_control::rules::Rules;
use heliostat_server_socket::Judge;
use heliostat_service_socket::Confined;

/// For one session.
pub(super) struct ByRules {
    pub subject: Subject,
    pub rules: Arc<Rules>,
    pub confined: Option<Confined>,
    /// What is configured of shared listeners.
    pub shared: Arc<SharedAddresses>,
    /// Ports below are root's to listen at, as for sockets of its own (source: ip(7),
    /// ip_unprivileged_port_start).
    pub first_port: u16,
}

impl Judge for ByRules {
    fn judge(&self, access: Access, address: NetAddress) -> Result<(), i32> {
        let is_near = self.confined.as_ref().is_none_or(|it| it.reaches(access, address));
        let right = match access {
            Access::Connect => Right::Connect,
            Access::Listen => Right::Listen,
        };
        // Without a rule a program connects and listens where the kernel would let it.
        let decision = self.rules.decide(&self.subject, right, address, self.subject.uid);
        let is_roots = access == Access::Listen && (1..self.first_port).contains(&address.port);
        let may = is_near && decision.is_allowed() && (!is_roots || self.subject.uid == 0);
        may.then_some(()).ok_or(libc::EACCES)
    }

    /// A plug-in is asked by the balancer of unmodified programs only.
    fn rule(&self, address: NetAddress) -> Option<ShareRule> {
        let rule = self.shared.of(address).map(|shared| shared.rule);
        rule.filter(|rule| !matches!(rule, ShareRule::Plugin(_)))
    }
}

/// The first port that everybody may listen at.
pub(super) fn first_port() -> u16 {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    known.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::listener::rule::Peek;
    use heliostat_control::config::SharedAddress;
    use heliostat_control::name::NamePattern;
    use heliostat_control::rules::{Action, Rule};

    fn judged(uid: u32, access: Access, address: &str, denied: Option<&str>) -> bool {
        let names = denied.into_iter().map(|name| NamePattern::parse(name).unwrap()).collect();
        let (action, rights) = (Action::Deny, vec![Right::Connect]);
        let rule = Rule { action, rights, users: vec![], groups: vec![], names };
        let rules = Rules(denied.map(|_| rule).into_iter().collect());
        let (rules, subject) = (Arc::new(rules), Subject::new(uid, uid));
        let judge =
            ByRules { subject, rules, confined: None, shared: Arc::default(), first_port: 1024 };
        judge.judge(access, NetAddress::new(address.parse().unwrap())).is_ok()
    }

    #[test]
    fn ports_of_root_are_listened_at_by_root_only() {
        assert!(!judged(1000, Access::Listen, "127.0.0.1:80", None));
        assert!(judged(0, Access::Listen, "127.0.0.1:80", None));
        assert!(judged(1000, Access::Listen, "127.0.0.1:0", None));
        assert!(judged(1000, Access::Connect, "127.0.0.1:80", None));
    }

    #[test]
    fn a_rule_denies_an_address() {
        let rule = Some("/net/tcp/10.0.0.1:*");
        assert!(!judged(1000, Access::Connect, "10.0.0.1:80", rule));
        assert!(judged(1000, Access::Connect, "10.0.0.2:80", rule));
    }

    #[test]
    fn what_is_configured_decides_how_an_address_is_shared() {
        let at = |text: &str| NetAddress::new(text.parse().unwrap());
        let one = |text, rule| SharedAddress { address: at(text), rule, workers: 4 };
        let plugin = ShareRule::Plugin(Peek::USUAL);
        let all = vec![one("10.0.0.1:80", ShareRule::Address), one("10.0.0.2:80", plugin)];
        let (subject, rules) = (Subject::new(0, 0), Arc::default());
        let shared = Arc::new(SharedAddresses(all));
        let judge = ByRules { subject, rules, confined: None, shared, first_port: 1024 };
        assert_eq!(judge.rule(at("10.0.0.1:80")), Some(ShareRule::Address));
        let others = ["10.0.0.2:80", "10.0.0.3:80"].map(|text| judge.rule(at(text)));
        assert_eq!(others, [None; 2], "a plug-in, and nothing");
    }
}
