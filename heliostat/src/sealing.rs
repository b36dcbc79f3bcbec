//! From the command line's words to a policy.

use std::path::{Path, PathBuf};

use heliostat_control::policy::{parse_bytes, Endpoint, NamePattern, PathGrant, Policy};

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

/// A folder for this user alone, for what supervisors keep while they run.
pub fn private_folder(socket: &Path) -> PathBuf {
    // The control socket lies in such a folder, made and checked by whoever made the socket.
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    socket.parent().unwrap_or(Path::new("/tmp")).to_owned()
}
