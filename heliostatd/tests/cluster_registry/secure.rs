//! Nodes that find each other in an etcd with TLS and users, and what is said of files that do not fit.

#[path = "../../../backend/registry/tests/support/secure_etcd.rs"]
#[allow(dead_code)]
mod secure_etcd;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::await_that;
use crate::support::cluster::{list, words_of_failed_start, SecretFile};
use crate::support::registry::{await_all_joined, config, told};
use crate::support::Daemon;
use secure_etcd::{SecureEtcd, USER};

/// A file that only its owner may read; removed with its server's folder.
fn private(server: &SecureEtcd, name: &str, text: &[u8]) -> PathBuf {
    let path = server.file(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn keys(all: &[(&str, &Path)]) -> String {
    all.iter().map(|(key, path)| format!("{key} = \"{}\"\n", path.display())).collect()
}

#[test]
fn nodes_join_by_an_etcd_with_tls_certificates_and_users() {
    let Some(mut server) = SecureEtcd::start("nodes", true) else { return };
    server.has_users("/heliostat/");
    let secret = SecretFile::new("registry-secure", "b9");
    let password = private(&server, "password", format!("{}\n", USER.1).as_bytes());
    let key = private(&server, "own.key", &server.bytes("node.key"));
    let more = keys(&[
        ("registry_ca", &server.file("ca.pem")),
        ("registry_certificate", &server.file("node.pem")),
        ("registry_key", &key),
        ("registry_password", &password),
    ]) + &format!("registry_user = \"{}\"\n", USER.0);
    let registry = format!("etcd:{}", server.endpoint());
    let daemons = [1, 2].map(|node| {
        let text = config(node, &secret, &registry) + &more;
        Daemon::with(&text, &[])
    });
    await_all_joined(&daemons.each_ref());
    let epoch = list(&daemons[0]).epoch;
    // Tokens end with it, and leases do not.
    server.restart();
    std::thread::sleep(crate::support::registry::LEASE * 2);
    assert_eq!(told(&daemons[0])["is_member"], true);
    assert_eq!(list(&daemons[1]).epoch, epoch);
    // A third one whose password is wrong says so, and is no member.
    let wrong = private(&server, "wrong", b"wrong");
    let text = more.replace(&password.display().to_string(), &wrong.display().to_string());
    let third = Daemon::with(&(config(3, &secret, &registry) + &text), &[]);
    await_that("it says why", || {
        told(&third)["why"].as_str().is_some_and(|why| why.contains("user ID or password"))
    });
    assert_eq!(told(&third)["is_member"], false);
}

#[test]
fn files_that_do_not_fit_are_named_at_the_start() {
    let Some(server) = SecureEtcd::start("files", false) else { return };
    let secret = SecretFile::new("registry-files", "ba");
    let registry = format!("etcd:{}", server.endpoint());
    let failed = |more: &str| words_of_failed_start(&(config(1, &secret, &registry) + more));
    let words = failed("");
    assert!(words.contains("takes registry_ca"), "{words}");
    let words = failed(&keys(&[("registry_ca", Path::new("/nonexistent/ca"))]));
    assert!(words.contains("cluster.registry_ca: /nonexistent/ca: "), "{words}");
    let words = failed(&keys(&[("registry_ca", &server.file("names"))]));
    assert!(words.contains("cluster.registry_ca: it holds no certificate in PEM"), "{words}");
    let ca = server.file("ca.pem");
    let own = [("registry_ca", ca.as_path()), ("registry_certificate", &server.file("node.pem"))];
    let words = failed(&keys(&own));
    assert!(words.contains("it takes registry_key besides"), "{words}");
    let open = private(&server, "open.key", &server.bytes("node.key"));
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let words = failed(&keys(&[own[0], own[1], ("registry_key", &open)]));
    assert!(words.contains("cluster.registry_key: ") && words.contains("chmod 600"), "{words}");
    let other = private(&server, "other-node.key", &server.bytes("server.key"));
    let words = failed(&keys(&[own[0], own[1], ("registry_key", &other)]));
    assert!(words.contains("cluster.registry_certificate, registry_key: "), "{words}");
    // A password that would be heard by whoever is between.
    let user = format!("registry_user = \"ann\"\n{}", keys(&[("registry_password", &other)]));
    let far = config(1, &secret, "etcd:http://HOST:2379") + &user;
    let words = words_of_failed_start(&far);
    assert!(words.contains("in the clear"), "{words}");
}
