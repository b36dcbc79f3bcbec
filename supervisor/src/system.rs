//! What any dynamically linked program needs to start: the system grants.

use std::path::PathBuf;

use heliostat_control::policy::{Access, PathGrant};

/// For reading and executing.
const READ: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/localtime",
    "/etc/timezone",
    // Not the folder: beside these lie private keys, and root's programs own them.
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/inputrc",
    "/etc/terminfo",
    "/etc/bash.bashrc",
    "/etc/profile",
    "/etc/locale.alias",
    "/etc/debian_version",
    "/etc/os-release",
    "/etc/mtab",
    "/etc/fonts",
    "/etc/python3",
    "/etc/perl",
    "/etc/gitconfig",
    "/dev/fd",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];
/// Devices without a memory of their own.
const WRITE: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Devices that every program may open for writing. They are the host's, so that their attributes are
/// nobody's to change who has no grant that names them.
pub fn devices() -> impl Iterator<Item = PathBuf> {
    WRITE.iter().map(PathBuf::from)
}

/// The configuration of each version of Python that is installed.
fn pythons() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/etc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python3."))
        .map(|entry| entry.path())
}

/// All of them; many exist on some machines only.
pub fn grants() -> Vec<PathGrant> {
    let all = |names: &[&str], access| -> Vec<PathGrant> {
        names.iter().map(|name| PathGrant { path: PathBuf::from(name), access }).collect()
    };
    let mut grants = all(READ, Access::ReadOnly);
    grants.extend(pythons().map(|path| PathGrant { path, access: Access::ReadOnly }));
    grants.extend(all(WRITE, Access::ReadWrite));
    grants
}
