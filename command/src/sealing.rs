//! From the command line's words to a policy.

use std::ffi::OsStr;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use heliostat_abi::limits::REGION_SCOPES_MAX;
use heliostat_abi::place::{folder_mode, Surroundings};
use heliostat_control::policy::{
    parse_bytes, Access, Endpoint, NamePattern, NamesOf, PathGrant, Policy, RegionScope, Variable,
};

use heliostat_supervisor::Identities;
use rustix::thread::CapabilitySet;

use crate::args::SealArguments;
use crate::image::Environment;
use crate::place::check_folder;

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
    match policy.all_scopes().count() {
        0..=REGION_SCOPES_MAX => Ok(policy),
        many => Err(format!(
            "{many} regions, locks and functions are granted, at most {REGION_SCOPES_MAX} can be; end \
             their names in *"
        )),
    }
}

fn of_flags(arguments: &SealArguments) -> Result<Policy, String> {
    let mut flags = Policy {
        grants: each("--grant", &arguments.grant, PathGrant::parse)?,
        listen: each("--listen", &arguments.listen, Endpoint::parse_listen)?,
        connect: each("--connect", &arguments.connect, Endpoint::parse_connect)?,
        lookup: each("--lookup", &arguments.lookup, NamePattern::parse)?,
        env: each("--env", &arguments.env, Variable::parse)?,
        users: arguments.user.clone(),
        delegate: arguments.delegate,
        regions: scopes(NamesOf::Snapshots, &arguments.snapshot)?,
        memory: scopes(NamesOf::Memory, &arguments.region)?,
        locks: scopes(NamesOf::Locks, &arguments.lock)?,
        calls: scopes(NamesOf::Functions, &arguments.call)?,
        areas: scopes(NamesOf::Areas, &arguments.area)?,
        ..Policy::default()
    };
    flags.limits.processes = arguments.processes;
    flags.limits.memory = bytes("--memory", arguments.memory.as_deref())?;
    flags.limits.tmp = bytes("--tmp", arguments.tmp.as_deref())?;
    Ok(flags)
}

fn scopes(names: NamesOf, words: &[String]) -> Result<Vec<RegionScope>, String> {
    each(names.flag(), words, |word| RegionScope::parse_of(names, word))
}

fn bytes(flag: &str, text: Option<&str>) -> Result<Option<u64>, String> {
    let parse = |text| parse_bytes(text).map_err(|error| format!("{flag} {text}: {error}"));
    text.map(parse).transpose()
}

/// Takes away what the program is not to be told, and sets what the policy sets; the names of what
/// was taken away, in their order.
pub fn limit_environment(
    environment: &mut Environment,
    policy: &Policy,
    by_default: bool,
) -> Vec<String> {
    let outside = environment.keep(|name| policy.lets_cross(&name.to_string_lossy(), by_default));
    for one in &policy.env {
        if let Variable::Is(name, value) = one {
            environment.set(name, value);
        }
    }
    let mut names: Vec<_> =
        outside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| environment.get(name).is_none());
    names.sort();
    names
}

/// Variables that name a folder for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Lets the variables for temporary files lead to the program's own folder, where what they name is
/// not granted for writing. One that has another name than the usual is named in any case.
pub fn lead_to_temporary(environment: &mut Environment, grants: &[PathGrant], own: &Path) {
    let is_granted = |path: &OsStr| {
        let path = Path::new(path);
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let writable = grants.iter().filter(|grant| grant.access == Access::ReadWrite);
        writable.filter_map(|grant| grant.path.canonicalize().ok()).any(|at| path.starts_with(at))
    };
    for name in TEMPORARY {
        let leads_elsewhere = match environment.get(name) {
            Some(path) => !is_granted(path),
            None => name == TEMPORARY[0] && own != Path::new("/tmp"),
        };
        if leads_elsewhere {
            environment.set(name, own);
        }
    }
}

fn each<T, E: std::fmt::Display>(
    flag: &str,
    words: &[String],
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, String> {
    let one = |word: &String| parse(word).map_err(|error| format!("{flag} {word}: {error}"));
    words.iter().map(one).collect()
}

/// Users that the program may become: those that the policy names, and any where it is seen which. Only
/// who has the right to become others can give it.
///
/// # Errors
/// Such users are named, and cannot be taken.
pub fn identities(policy: &Policy, traces: bool) -> Result<Option<Identities>, String> {
    let own = rustix::thread::capabilities(None).map(|own| own.permitted);
    let own = own.unwrap_or(CapabilitySet::empty());
    let may_become = own.contains(CapabilitySet::SETUID | CapabilitySet::SETGID);
    // The kernel lets nobody else look into who has become another (ptrace(2)), as the supervisor does
    // for each of its calls.
    let may_serve = own.contains(CapabilitySet::SYS_PTRACE);
    match (policy.users.as_slice(), may_become && may_serve) {
        ([], true) if traces => Ok(Some(Identities::any())),
        ([], _) => Ok(None),
        (names, true) => Identities::named(names).map(Some),
        ([first, ..], false) if may_become => Err(format!(
            "a program that becomes user {first} is served with CAP_SYS_PTRACE only, which is missing \
             here: give it to the container, or leave --user out"
        )),
        ([first, ..], false) => Err(format!(
            "only a program of root's can become user {first}: leave --user out, or start it as root"
        )),
    }
}

/// What of the control plane's lies below a grant for writing: granted for reading there. Otherwise
/// a sealed program would reach its socket by another name of it, without a restriction, or put
/// another in its place for those who come later.
pub fn guarded(policy: &Policy, here: &Surroundings) -> Vec<PathBuf> {
    let writable = policy.grants.iter().filter(|grant| grant.access == Access::ReadWrite);
    let writable: Vec<_> = writable.filter_map(|grant| grant.path.canonicalize().ok()).collect();
    if writable.is_empty() {
        return Vec::new();
    }
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
    let there = all.into_iter().filter_map(|path| path.canonicalize().ok());
    there.filter(|path| writable.iter().any(|grant| path.starts_with(grant))).collect()
}

/// Whether a control socket that is not there yet lies below a grant for writing: what is not there
/// cannot be guarded, and the program could put one of its own there.
pub fn could_be_taken(policy: &Policy, here: &Surroundings) -> bool {
    let socket = here.socket_path();
    let Ok(folder) = private_folder(&socket).canonicalize() else { return false };
    let writable = policy.grants.iter().filter(|grant| grant.access == Access::ReadWrite);
    let mut writable = writable.filter_map(|grant| grant.path.canonicalize().ok());
    here.is_given() && !socket.exists() && writable.any(|grant| folder.starts_with(grant))
}

/// Makes a default socket's folder as the control plane would, and checks it: a sealed program that
/// may make names where it belongs would make it, and be trusted by those who come later.
///
/// # Errors
/// Somebody else made it, or may write there.
pub fn make_folder(here: &Surroundings) -> Result<(), String> {
    let socket = here.socket_path();
    let Some(folder) = socket.parent().filter(|_| !here.is_given()) else { return Ok(()) };
    if folder.symlink_metadata().is_err() {
        let mode = folder_mode(here.uid);
        // What this user cannot make, no program of this user's can.
        let made = DirBuilder::new().recursive(true).mode(mode).create(folder);
        let _ = made.and_then(|()| std::fs::set_permissions(folder, Permissions::from_mode(mode)));
    }
    check_folder(here).map_err(|(folder, fault)| format!("{}: {fault}", folder.display()))
}

/// A folder for this user alone, for what supervisors keep while they run.
pub fn private_folder(socket: &Path) -> PathBuf {
    // The control socket lies in such a folder, made and checked by whoever made the socket.
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    socket.parent().unwrap_or(Path::new("/tmp")).to_owned()
}
