//! The registry in a real etcd that is asked over TLS, and that has users.

mod support;

use std::sync::Arc;

use heliostat_backend_registry::etcd::{Access, Credentials, Endpoints, Etcd};
use heliostat_backend_registry::{Outcome, Why};
use support::secure_etcd::{SecureEtcd, USER};
use support::{conforms, key, put, User};

/// Who trusts the authority of this file.
fn trusts(server: &SecureEtcd, authority: &str) -> Credentials {
    Credentials { authorities: Some(server.bytes(authority)), ..Credentials::default() }
}

fn user(server: &SecureEtcd, given: Credentials) -> User {
    let endpoints = Endpoints::parse(&server.endpoint(), "/test/").unwrap();
    let endpoints = endpoints.by(Access::read(given).unwrap()).unwrap();
    User::new(Etcd::start(endpoints, Arc::new(|| {})).unwrap())
}

fn ann(server: &SecureEtcd, password: &str) -> Credentials {
    let user = Some((USER.0.to_owned(), password.to_owned()));
    Credentials { user, ..trusts(server, "ca.pem") }
}

fn is_unreached(outcome: &Outcome, words: &str) -> bool {
    matches!(outcome, Outcome::NotDone(Why::Unreachable(why)) if why.contains(words))
}

#[test]
fn it_conforms_over_tls() {
    let Some(server) = SecureEtcd::start("conforms", false) else { return };
    conforms(|| user(&server, trusts(&server, "ca.pem")));
}

#[test]
fn a_server_whose_certificate_another_one_signed_is_sent_nothing() {
    let Some(server) = SecureEtcd::start("other", false) else { return };
    let mut stranger = user(&server, trusts(&server, "other.pem"));
    let outcome = stranger.write(put("a", 0, "x"));
    assert!(is_unreached(&outcome, "certificate"), "{outcome:?}");
    let mut user = user(&server, trusts(&server, "ca.pem"));
    assert_eq!(user.get("a"), None);
    user.done(put("a", 0, "x"));
}

#[test]
fn a_server_that_asks_for_certificates_serves_who_shows_one() {
    let Some(server) = SecureEtcd::start("own", true) else { return };
    let own = Some((server.bytes("node.pem"), server.bytes("node.key")));
    let mut node = user(&server, Credentials { own, ..trusts(&server, "ca.pem") });
    let revision = node.done(put("a", 0, "x"));
    node.registry.watch(key("a"), revision).unwrap();
    node.done(put("a", revision, "y"));
    assert_eq!(node.changes(1)[0].key, key("a"));
    let mut nobody = user(&server, trusts(&server, "ca.pem"));
    let outcome = nobody.write(put("b", 0, "x"));
    let is_refused = matches!(outcome, Outcome::NotDone(_) | Outcome::Unknown(Why::Unreachable(_)));
    assert!(is_refused, "{outcome:?}");
    assert_eq!(node.get("b"), None);
    // A key that belongs to another certificate.
    let own = Some((server.bytes("node.pem"), server.bytes("server.key")));
    let why = Access::read(Credentials { own, ..trusts(&server, "ca.pem") }).unwrap_err();
    assert!(why.starts_with("registry_certificate, registry_key: "), "{why}");
}

#[test]
fn users_of_etcd_read_and_write_what_they_may_and_stay_who_they_are_over_its_restart() {
    let Some(mut server) = SecureEtcd::start("users", false) else { return };
    server.has_users("/test/");
    let mut nobody = user(&server, trusts(&server, "ca.pem"));
    let outcome = nobody.write(put("a", 0, "x"));
    assert!(matches!(&outcome, Outcome::NotDone(Why::Refused(_))), "{outcome:?}");
    let mut wrong = user(&server, ann(&server, "wrong"));
    let outcome = wrong.write(put("a", 0, "x"));
    let words = "invalid user ID or password";
    let is_told = matches!(&outcome, Outcome::NotDone(Why::Refused(why)) if why.contains(words));
    assert!(is_told, "{outcome:?}");
    let mut ann = user(&server, ann(&server, USER.1));
    let first = ann.done(put("a", 0, "x"));
    ann.registry.watch(key("a"), first).unwrap();
    // Its token is forgotten there.
    server.restart();
    let second = ann.done(put("a", first, "y"));
    assert_eq!(ann.changes(1)[0].revision, second, "the watch went on");
}
