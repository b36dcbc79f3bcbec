//! Paths where secrets usually lie: asked for by many programs, granted by nobody unread.

use std::path::Path;

/// Folders that hold secrets wherever they are, and why.
const FOLDERS: &[(&str, &str)] = &[
    (".ssh", "keys that log in elsewhere"),
    (".gnupg", "keys that sign and decrypt"),
    (".aws", "keys of a cloud account"),
    (".azure", "keys of a cloud account"),
    ("gcloud", "keys of a cloud account"),
    (".kube", "keys of clusters"),
    (".docker", "passwords of registries"),
    (".password-store", "passwords"),
    ("keyrings", "passwords"),
];
/// Files that hold secrets wherever they are.
const FILES: &[(&str, &str)] = &[
    (".netrc", "passwords of servers"),
    (".pgpass", "passwords of databases"),
    (".my.cnf", "passwords of databases"),
    (".git-credentials", "passwords of repositories"),
    (".pypirc", "passwords of registries"),
    (".npmrc", "tokens of registries"),
    (".vault-token", "a token"),
    (".env", "secrets of a program's environment"),
];
/// Whole paths.
const PATHS: &[(&str, &str)] = &[
    ("/etc/shadow", "the passwords of this machine's users"),
    ("/etc/shadow-", "the passwords of this machine's users"),
    ("/etc/gshadow", "the passwords of this machine's groups"),
    ("/etc/gshadow-", "the passwords of this machine's groups"),
    ("/etc/sudoers", "who may become root"),
    ("/etc/sudoers.d", "who may become root"),
    ("/etc/ssl/private", "private keys"),
];
/// How names of private keys begin, and how they end.
const KEY_BEGINNINGS: &[&str] = &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "privkey"];
const KEY_ENDS: &[&str] =
    &[".key", "_key", "-key.pem", "_key.pem", "/key.pem", ".p12", ".pfx", ".kdbx"];

/// What a path is likely to hold that should not be shown; none for most.
pub(super) fn of(path: &Path) -> Option<&'static str> {
    let whole = PATHS.iter().find(|(known, _)| path.starts_with(known));
    let named = |list: &'static [(&str, &str)], name: &str| {
        list.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
    };
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let folder = parts.find_map(|part| named(FOLDERS, part));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    whole.map(|(_, why)| *why).or(folder).or_else(|| named(FILES, name)).or_else(|| key(name))
}

/// Whether a name is that of a private key, and not of its public half.
fn key(name: &str) -> Option<&'static str> {
    let slashed = format!("/{name}");
    let is_key = KEY_BEGINNINGS.iter().any(|one| name.starts_with(one))
        || KEY_ENDS.iter().any(|one| slashed.ends_with(one));
    (is_key && !name.ends_with(".pub")).then_some("a private key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_places_and_names() {
        for path in [
            "/etc/shadow",
            "/etc/ssl/private/a.pem",
            "/users/ann/.ssh",
            "/users/ann/.ssh/config",
            "/users/ann/.netrc",
            "/srv/app/server.key",
            "/srv/app/tls/key.pem",
            "/etc/ssh/ssh_host_rsa_key",
            "/backup/id_ed25519",
        ] {
            assert!(of(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "/etc/passwd",
            "/etc/shadows",
            "/usr/lib/python3/certifi/cacert.pem",
            "/srv/app/monkey.pem",
            "/etc/ssh/ssh_host_rsa_key.pub",
            "/srv/keys/list",
            "/",
        ] {
            assert_eq!(of(Path::new(path)), None, "{path}");
        }
    }
}
