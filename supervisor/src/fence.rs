//! The child's side: gives up what it will not need, then puts itself behind the fence.

use heliostat_backend_seal::{self as seal, Handover};
use heliostat_base::call::fcntl;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use landlock::{
    Access as _, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, ABI,
};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::filter::{self, Fenced};
use crate::paths::Roots;
use crate::spaces::Spaces;

/// Descriptors from here on are the caller's own business: below are input, output and errors.
const FIRST_OF_CALLER: i32 = 3;

/// Bytes of a core file at most. Not 0: a limit of one byte keeps the kernel from giving the core
/// to a program (`|` in core_pattern) as well, which 0 does not (source: fs/coredump.c).
pub const CORE_BYTES_MAX: u64 = 1;

/// What can be fenced by Landlock here.
///
/// # Errors
/// ENOSYS where there is no Landlock: then nothing keeps exec to what is granted.
pub fn probe() -> Result<Fenced, Errno> {
    match landlock_abi() {
        0 => Err(Errno(libc::ENOSYS)),
        abi => {
            let root = rustix::process::geteuid().is_root();
            Ok(Fenced { signals: abi >= 6, root, ..Fenced::default() })
        }
    }
}

/// The kernel's Landlock version; 0 without (landlock_create_ruleset(2)).
pub fn landlock_abi() -> u32 {
    seal::landlock_version()
}

/// Puts this thread behind the fence; what it starts, and becomes, is behind it too.
///
/// # Errors
/// Those of prctl(2), capset(2), Landlock and seccomp(2).
pub fn enter(
    roots: &Roots,
    spaces: Option<&Spaces>,
    fenced: Fenced,
    kept: &[i32],
    handover: Handover,
) -> Result<OwnedFd, Errno> {
    let number = |error: rustix::io::Errno| Errno(error.raw_os_error());
    // A descriptor is a grant; what the caller happened to have open is none (CVE-2024-21626).
    seal::close_on_exec_from(FIRST_OF_CALLER)?;
    for fd in kept.iter().filter(|fd| **fd >= FIRST_OF_CALLER) {
        fcntl(*fd, libc::F_SETFD, 0)?;
    }
    let ipc = match spaces {
        Some(spaces) => spaces.enter().map(|()| true)?,
        None => seal::spaces::leave(seal::spaces::IPC).is_ok(),
    };
    let queues = spaces.and_then(Spaces::queues);
    let fenced = Fenced { ipc, queues: queues.is_some(), ..fenced };
    drop_capabilities(fenced.becomes).map_err(number)?;
    rustix::thread::set_no_new_privs(true).map_err(number)?;
    no_core_files()?;
    // If this process's parent and the one in front of it are killed at once.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(number)?;
    restrict(roots, queues).map_err(|_| Errno(libc::EACCES))?;
    handover.give(|| seal::install(&filter::assemble(fenced)))
}

/// None are needed, and root's exec must not bring them back. A program that may become others has
/// the right to, over its exec, until it has become one.
fn drop_capabilities(becomes: bool) -> rustix::io::Result<()> {
    let mut locked = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    if !becomes {
        locked |= CapabilitiesSecureBits::NO_SETUID_FIXUP;
    }
    // Needs a capability itself; without any there is nothing to bring back.
    let _ = rustix::thread::set_capabilities_secure_bits(
        locked | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED,
    );
    let _ = rustix::thread::clear_ambient_capability_set();
    let kept = match becomes {
        true => CapabilitySet::SETUID | CapabilitySet::SETGID,
        false => CapabilitySet::empty(),
    };
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    rustix::thread::set_capabilities(None, sets)?;
    kept.iter().try_for_each(|one| rustix::thread::configure_capability_in_ambient_set(one, true))
}

/// The kernel writes core files where the program stands, past every grant, or gives them to a
/// program of root's (core(5)). Where that listens at a socket (`@` in core_pattern) no limit keeps
/// them from it: so that no memory is in them, which all processes of the program inherit.
fn no_core_files() -> Result<(), Errno> {
    let _ = std::fs::write("/proc/self/coredump_filter", "0");
    let least = Some(CORE_BYTES_MAX);
    let least = rustix::process::Rlimit { current: least, maximum: least };
    let limited = rustix::process::setrlimit(rustix::process::Resource::Core, least);
    limited.map_err(|error| Errno(error.raw_os_error()))
}

/// Of files, only executing what is granted is left: all else is opened by the supervisor.
fn restrict(
    roots: &Roots,
    queues: Option<&std::os::fd::OwnedFd>,
) -> Result<(), landlock::RulesetError> {
    let runs = AccessFs::Execute | AccessFs::ReadFile;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    // What is only looked at is not run.
    for root in roots.all().iter().filter(|root| root.access != Access::Stat) {
        let opened = rustix::fs::open(
            &root.path,
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        if let Ok(fd) = opened {
            rules = rules.add_rule(PathBeneath::new(fd, runs))?;
        }
    }
    if let Some(queues) = queues {
        // The kernel opens them itself, by names that lead nowhere else.
        let opens = AccessFs::ReadFile | AccessFs::WriteFile;
        rules = rules.add_rule(PathBeneath::new(queues, opens))?;
    }
    rules.restrict_self().map(drop)
}
