//! The supervisor's own fence. It reads what hostile programs write, so that a mistake in it must not
//! be worth more than what it is there for.
//!
//! Files: Landlock, for what is granted and the few places that it needs itself. The program
//! inherits this layer and adds its own; so the supervisor may look into the program's processes,
//! which are behind one fence more, and into no others (Landlock's rule for ptrace(2)). Rights: of
//! root's, those that acting on files in a grant takes. Calls: those that it makes, by a filter,
//! without exec, new processes, new code in memory, other kinds of sockets.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use heliostat_backend_seal as seal;
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, ABI,
};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::errno::errno;
use crate::filter;
use crate::identity::Identities;
use crate::paths::{Root, Roots};

/// What root's supervisor keeps: to act on files of others below a grant, as root's program would,
/// to listen at low ports, and to serve a program whose file it may not read.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_PTRACE)
    // Attributes named trusted.* and security.* of root's programs; all else that it is for, mounts
    // and namespaces above all, the filter refuses.
    .union(CapabilitySet::SYS_ADMIN);

/// And to answer on behalf of users that the program has become (`behalf`).
const OF_IDS: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

type Rights = BitFlags<AccessFs>;

/// All that is fenced: not executing, which the filter keeps it from and the program needs.
fn handled() -> Rights {
    use landlock::Access as _;
    AccessFs::from_all(ABI::V4) & !AccessFs::Execute
}

fn reading() -> Rights {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn writing() -> Rights {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate
}

/// Fences this thread's files, and those of all it starts: `places` are its own folders, `removes`
/// one in which it removes a folder.
///
/// # Errors
/// EACCES if the kernel takes no such rules.
pub fn limit_files(
    roots: &Roots,
    places: &[&Path],
    removes: Option<&Path>,
    queues: Option<&OwnedFd>,
) -> Result<(), Errno> {
    rustix::thread::set_no_new_privs(true).map_err(errno)?;
    fence_files(roots, places, removes, queues).map_err(|_| Errno(libc::EACCES))
}

fn fence_files(
    roots: &Roots,
    places: &[&Path],
    removes: Option<&Path>,
    queues: Option<&OwnedFd>,
) -> Result<(), RulesetError> {
    let made = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled())?
        .create()?;
    let mut rules = made;
    for root in roots.all() {
        let (fd, rights) = of_root(root);
        rules = add(rules, fd.as_ref().map_or(root.folder.as_fd(), AsFd::as_fd), rights)?;
    }
    // Of processes: their entries, their memory where code is mended, their threads' names.
    rules = add(rules, roots.proc(), reading() | writing())?;
    let own = places.iter().map(|place| (*place, handled()));
    let removes = removes.map(|place| (place, AccessFs::RemoveDir.into()));
    let others = [Some((Path::new("/dev/null"), writing())), removes];
    for (place, rights) in own.chain(others.into_iter().flatten()) {
        if let Some(fd) = look(place) {
            rules = add(rules, &fd, rights)?;
        }
    }
    if let Some(queues) = queues {
        // Not for itself: the program inherits this.
        rules = add(rules, queues, reading() | writing())?;
    }
    rules = add_handed(rules)?;
    rules.restrict_self().map(drop)
}

/// What a grant gives, and to what. A file may be replaced by rename(2) and stays granted, so that
/// its folder's files are open to the supervisor; not so what is no file.
fn of_root(root: &Root) -> (Option<OwnedFd>, Rights) {
    match (root.is_folder, root.access) {
        (true, Access::ReadWrite) => return (None, handled()),
        (true, Access::ReadOnly) => return (None, reading()),
        // Which takes no right.
        (_, Access::Stat) => return (None, Rights::empty()),
        _ => {}
    }
    let itself = look(&root.path).filter(|fd| !is_regular(fd));
    let rights = match (root.access, &itself) {
        (Access::Stat | Access::ReadOnly, _) => AccessFs::ReadFile.into(),
        (Access::ReadWrite, Some(_)) => writing(),
        (Access::ReadWrite, None) => writing() | AccessFs::MakeReg | AccessFs::Refer,
    };
    (itself, rights)
}

/// What the program holds from the start, which it may open anew by its name in /proc.
fn add_handed(mut rules: RulesetCreated) -> Result<RulesetCreated, RulesetError> {
    for number in 0..3 {
        let own = format!("/proc/self/fd/{number}");
        let fd = rustix::fs::open(own, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        // Pipes and sockets are nobody's files.
        let is_named = |fd: &OwnedFd| crate::paths::host_path(fd).is_some();
        if let Some(fd) = fd.ok().filter(is_named) {
            rules = add(rules, &fd, writing())?;
        }
    }
    Ok(rules)
}

/// Adds a rule; for what is no folder, of the rights those that a file has.
fn add(
    rules: RulesetCreated,
    fd: impl AsFd,
    rights: Rights,
) -> Result<RulesetCreated, RulesetError> {
    let mode = rustix::fs::fstat(&fd).map_or(0, |found| found.st_mode);
    let rights = match FileType::from_raw_mode(mode) {
        FileType::Directory => rights,
        _ => rights & writing(),
    };
    if rights.is_empty() {
        return Ok(rules);
    }
    rules.add_rule(PathBeneath::new(fd, rights))
}

fn look(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

fn is_regular(fd: &OwnedFd) -> bool {
    let found = rustix::fs::fstat(fd);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

/// Gives up rights, and makes calls that it does not need fail with EPERM. This thread is the only
/// one; those that it starts inherit it. `becomes`: the users that the program may become.
///
/// # Errors
/// Those of capset(2) and seccomp(2).
pub fn limit_calls(becomes: Option<&Identities>) -> Result<(), Errno> {
    let _ = rustix::thread::clear_ambient_capability_set();
    let own = rustix::thread::capabilities(None).map_err(errno)?;
    let kept = match becomes {
        Some(_) => KEPT | OF_IDS,
        None => KEPT,
    };
    let permitted = own.permitted & kept;
    let sets = CapabilitySets {
        effective: own.effective & kept,
        permitted,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(errno)?;
    rustix::thread::set_no_new_privs(true).map_err(errno)?;
    seal::restrict(&filter::of_supervisor(becomes.map(Identities::numbers)))
}
