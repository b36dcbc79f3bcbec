//! What the kernel says of a process under /proc; nothing where it does not let us look.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Bytes of an environment or a list of mappings that are looked at.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// Every process there is.
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Effective user; `None` when there is no such process, or only its number is left (zombie).
pub fn user(pid: u32) -> Option<u32> {
    if state_and_parent(pid)?.0 == 'Z' {
        return None;
    }
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Name of the program, as `Hello` would tell it.
pub fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Parent.
pub fn parent(pid: u32) -> Option<u32> {
    state_and_parent(pid).map(|(_, parent)| parent)
}

/// State and parent; the name in front of them may hold anything (source: proc_pid_stat(5)).
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// A variable of the environment with which the program was started; `None` also when that cannot be
/// read, see `is_open`.
pub fn variable(pid: u32, name: &str) -> Option<OsString> {
    let environment = read(pid, "environ")?;
    let mut each = environment.split(|byte| *byte == 0);
    let value = each.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    value.map(|value| OsString::from_vec(value.to_vec()))
}

/// Whether the environment and the mappings of a process are ours to see.
pub fn is_open(pid: u32) -> bool {
    read(pid, "environ").is_some() && read(pid, "maps").is_some()
}

/// Whether a file is mapped whose path or name holds `part`.
pub fn maps(pid: u32, part: &[u8]) -> bool {
    mapped(pid, part).next().is_some()
}

/// Inodes of the mappings of files whose path or name holds `part`.
pub fn inodes(pid: u32, part: &[u8]) -> Vec<u64> {
    let inode = |line: Vec<u8>| {
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split_whitespace().nth(4)?.parse().ok()
    };
    mapped(pid, part).filter_map(inode).collect()
}

fn mapped(pid: u32, part: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let maps = read(pid, "maps").unwrap_or_default();
    let has = |line: &&[u8]| line.windows(part.len()).any(|window| window == part);
    let lines: Vec<_> = maps.split(|byte| *byte == b'\n').filter(has).map(<[u8]>::to_vec).collect();
    lines.into_iter()
}

/// The file that the process runs.
pub fn program(pid: u32) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    fs::read_link(&path).is_ok().then_some(path)
}

/// The processes whose descriptors are sockets that are looked for, by inode; one for each.
pub fn holders(wanted: &HashSet<u64>) -> HashMap<u64, u32> {
    let mut found = HashMap::new();
    for pid in all() {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for link in descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()) {
            let inode = socket_inode(link.as_os_str().as_bytes());
            if let Some(inode) = inode.filter(|inode| wanted.contains(inode)) {
                found.entry(inode).or_insert(pid);
            }
        }
    }
    found
}

fn socket_inode(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn read(pid: u32, file: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/{file}")).ok()?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, TEXT_BYTES_MAX), &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_as_it_is() {
        let own = std::process::id();
        assert!(all().contains(&own) && is_open(own));
        assert_eq!(user(own), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert_eq!(variable(own, "PATH"), std::env::var_os("PATH"));
        assert!(maps(own, b"libc.so") && !maps(own, b"no such library"));
        assert!(!inodes(own, b"libc.so").contains(&0));
    }

    #[test]
    fn the_holder_of_a_socket_is_found() {
        use std::os::fd::AsRawFd;
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = heliostat_base::call::inode(socket.as_raw_fd()).unwrap();
        assert_eq!(holders(&HashSet::from([inode])), HashMap::from([(inode, std::process::id())]));
    }

    #[test]
    fn what_is_not_there_has_nothing() {
        assert_eq!(
            (user(u32::MAX), name(u32::MAX), variable(u32::MAX, "PATH")),
            (None, None, None)
        );
        assert!(!is_open(u32::MAX));
    }
}
