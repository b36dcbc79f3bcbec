//! Which way a device is driven, and why that one.

use std::fmt;

/// Who carries requests to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driven {
    /// The kernel's file system: it is a file.
    File,
    /// The kernel's block layer: it is a disk, or a partition.
    Disk,
    /// The same, of a disk that has a device of characters for its own commands, which was not named.
    DiskOfNamespace,
    /// Nobody: the namespace's own commands go to it.
    Commands,
    /// The kernel's block layer, since the namespace that was named takes no commands from here.
    InsteadOfCommands(NoCommands),
}

/// What was refused when commands were tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCommands {
    /// What was asked for.
    pub call: &'static str,
    /// What the kernel answered.
    pub errno: i32,
}

impl Driven {
    /// Whether only privileged programs drive it so: a namespace's commands were theirs until Linux 6.2.
    pub fn needs_privilege(self) -> bool {
        self == Driven::Commands && !is_since(&release(), FOR_EVERYBODY)
    }

    /// One word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Driven::File => "file",
            Driven::Disk | Driven::DiskOfNamespace | Driven::InsteadOfCommands(_) => "disk",
            Driven::Commands => "nvme_commands",
        }
    }

    /// By what, for people.
    pub fn by(self) -> &'static str {
        match self {
            Driven::File => "the kernel's file system",
            Driven::Disk | Driven::DiskOfNamespace | Driven::InsteadOfCommands(_) => {
                "the kernel's block layer"
            }
            Driven::Commands => "the commands of its NVMe namespace",
        }
    }

    /// Why, for people.
    pub fn why(self) -> String {
        match self {
            Driven::File => "it lies in a file".to_owned(),
            Driven::Disk => {
                "it lies on a disk that has no device for commands of its own".to_owned()
            }
            Driven::DiskOfNamespace => {
                "the disk was named; its namespace (/dev/ngXnY) is driven by its own commands"
                    .to_owned()
            }
            Driven::Commands => {
                "a namespace was named, and io_uring carries its commands".to_owned()
            }
            Driven::InsteadOfCommands(why) => why.to_string(),
        }
    }
}

impl fmt::Display for NoCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoCommands { call, errno } = self;
        let error = std::io::Error::from_raw_os_error(*errno);
        write!(f, "its namespace takes no commands from here: {call}: {error}")?;
        match *errno {
            EACCES | EPERM => f.write_str("; before Linux 6.2 they are for CAP_SYS_ADMIN only"),
            EINVAL | ENOSYS | EOPNOTSUPP => f.write_str("; they need io_uring and Linux 5.19"),
            _ => Ok(()),
        }
    }
}

/// The kernel of which unprivileged programs send a namespace's commands, as far as its device is theirs.
const FOR_EVERYBODY: (u32, u32) = (6, 2);

fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Whether a kernel's release is that version or a later one.
fn is_since(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= wanted
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_back_says_what_was_refused_and_what_it_needs() {
        let refused = |errno| Driven::InsteadOfCommands(NoCommands { call: "ioctl", errno });
        let why = refused(EACCES).why();
        assert!(why.contains("ioctl: Permission denied") && why.contains("CAP_SYS_ADMIN"), "{why}");
        let why = refused(EINVAL).why();
        assert!(why.contains("Invalid argument") && why.contains("Linux 5.19"), "{why}");
        assert_eq!((refused(EACCES).word(), Driven::Commands.word()), ("disk", "nvme_commands"));
        assert!(is_since("6.2.0-1", (6, 2)) && is_since("10.0", (6, 2)));
        assert!(!is_since("6.1.0-18-amd64", (6, 2)) && !is_since("", (6, 2)));
        assert!(!Driven::Disk.needs_privilege());
        let all = [Driven::File, Driven::Disk, Driven::DiskOfNamespace, Driven::Commands];
        assert!(all.into_iter().all(|it| !it.why().is_empty() && !it.by().is_empty()));
    }
}
