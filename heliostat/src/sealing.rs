//! From the command line's words to a policy.

use std::path::{Path, PathBuf};

use heliostat_abi::place::Surroundings;
use heliostat_control::policy::{parse_bytes, Access, Endpoint, NamePattern, PathGrant, Policy};

use crate::args::SealArguments;

/// The policy that flags and files make together; paths become absolute.
///
/// # Errors
/// What is wrong, with the flag or the file that says it.
pub fn policy(arguments: &SealArguments) -> Result<Policy, String> {
    let mut policy = Policy::default();
    let here = std::env::current_dir().map_err(|error| format!("working directory: {error}"))?;
    for file in &arguments.policy {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("--policy {}: {error}", file.display()))?;
        let mut read = Policy::from_toml(&text)
            .map_err(|error| format!("--policy {}: {error}", file.display()))?;
        let folder = std::path::absolute(file).ok();
        read.anchor(folder.as_deref().and_then(Path::parent).unwrap_or(&here));
        policy.add(read);
    }
    let mut flags = Policy { system: !arguments.bare, ..of_flags(arguments)? };
    flags.anchor(&here);
    policy.add(flags);
    Ok(policy)
}

fn of_flags(arguments: &SealArguments) -> Result<Policy, String> {
    let mut flags = Policy {
        grants: each("--grant", &arguments.grant, PathGrant::parse)?,
        listen: each("--listen", &arguments.listen, Endpoint::parse_listen)?,
        connect: each("--connect", &arguments.connect, Endpoint::parse_connect)?,
        lookup: each("--lookup", &arguments.lookup, NamePattern::parse)?,
        ..Policy::default()
    };
    flags.limits.processes = arguments.processes;
    if let Some(text) = &arguments.memory {
        let bytes = parse_bytes(text).map_err(|error| format!("--memory {text}: {error}"))?;
        flags.limits.memory = Some(bytes);
    }
    Ok(flags)
}

fn each<T, E: std::fmt::Display>(
    flag: &str,
    words: &[String],
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, String> {
    let one = |word: &String| parse(word).map_err(|error| format!("{flag} {word}: {error}"));
    words.iter().map(one).collect()
}

/// What of the control plane's lies below a grant for writing: granted for reading there. Otherwise
/// a sealed program would reach its socket by another name of it, without a restriction, or put
/// another in its place for those who come later.
pub fn guarded(policy: &Policy, here: &Surroundings) -> Vec<PathBuf> {
    let socket = here.socket_path();
    let beside = |end: &str| {
        let mut name = socket.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    };
    // A default folder has nothing else in it.
    let all = match here.is_given() {
        true => ["", ".lock", ".pid"].map(beside).to_vec(),
        false => socket.parent().map(Path::to_owned).into_iter().collect(),
    };
    let writable = policy.grants.iter().filter(|grant| grant.access == Access::ReadWrite);
    let writable: Vec<_> = writable.filter_map(|grant| grant.path.canonicalize().ok()).collect();
    let there = all.into_iter().filter_map(|path| path.canonicalize().ok());
    there.filter(|path| writable.iter().any(|grant| path.starts_with(grant))).collect()
}

/// A folder for this user alone, for what supervisors keep while they run.
pub fn private_folder(socket: &Path) -> PathBuf {
    // The control socket lies in such a folder, made and checked by whoever made the socket.
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    socket.parent().unwrap_or(Path::new("/tmp")).to_owned()
}
