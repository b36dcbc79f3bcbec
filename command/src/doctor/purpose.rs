//! What a machine is examined for, and which checks decide about it.

use super::Check;
use crate::args::Purpose;

/// What the control plane and who asks it stand on.
const CONTROL: &[&str] = &[
    "kernel",
    "sealed memory (memfd)",
    "read-only sharing",
    "futex",
    "unix seqpacket sockets",
    "identity (SO_PEERCRED)",
    "process handles (pidfd)",
    "control plane",
];
/// What the stub in an unmodified program stands on.
const STUB: &[&str] =
    &["preloading (LD_PRELOAD)", "patching of program text", "system calls of libc"];
const LEASES: &[&str] = &["file leases here"];
const RINGS: &[&str] = &["io_uring"];
/// The network of sealed programs needs more, and is lost alone.
const FENCE: &[&str] = &["seccomp notifications", "Landlock", "openat2", "memory of children"];

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Streams => "for streams",
            Self::Files => "for files",
            Self::Snapshots => "for snapshots",
            Self::Delegated => "for delegated operations",
            Self::Sealed => "for sealed programs",
        }
    }

    /// Names of the checks without which it cannot be.
    const fn needs(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Streams => &[CONTROL, STUB],
            Self::Files => &[CONTROL, STUB, LEASES],
            Self::Snapshots => &[CONTROL],
            Self::Delegated => &[CONTROL, RINGS],
            Self::Sealed => &[FENCE],
        }
    }
}

/// Whether each purpose can be served, as the other checks have it.
pub fn checks(purposes: &[Purpose], found: &[Check]) -> Vec<Check> {
    purposes.iter().map(|purpose| of(*purpose, found)).collect()
}

fn of(purpose: Purpose, found: &[Check]) -> Check {
    let needs: Vec<_> = purpose.needs().concat();
    let missing = found.iter().filter(|check| check.is_missing && needs.contains(&check.name));
    let missing: Vec<_> = missing.map(|check| check.name).collect();
    match missing.as_slice() {
        [] => Check::ok(purpose.name(), "nothing that it needs is missing"),
        names => {
            let found = format!("cannot work here: {}", names.join(", "));
            Check::fail(purpose.name(), found, "what is missing is named above")
        }
    }
}

/// The names of all checks that decide about something.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    [CONTROL, STUB, LEASES, RINGS, FENCE].concat().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_purpose_fails_by_what_it_needs_and_by_nothing_else() {
        let landlock = Check::fail("Landlock", "none", "build one").softened();
        let slow = Check::warn("openat2", "slow", "wait");
        let found = [landlock, slow, Check::fail("futex", "none", "allow it")];
        let all = checks(&[Purpose::Sealed, Purpose::Streams, Purpose::Delegated], &found);
        let said: Vec<_> = all.iter().map(|check| check.found.as_str()).collect();
        let cannot = ["cannot work here: Landlock", "cannot work here: futex"];
        assert_eq!(said, [cannot[0], cannot[1], cannot[1]]);
        assert!(all.iter().all(|check| check.verdict == Verdict::Fail));
        assert_eq!(of(Purpose::Sealed, &found[1..]).verdict, Verdict::Ok);
    }
}
