//! Names as files: whether this user can mount.

use std::fs::File;
use std::io::ErrorKind;

use heliostat_bind_fuse::find_helper;

use super::Check;

/// By which the kernel asks who serves a mount.
const DEVICE: &str = "/dev/fuse";

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![mounts()]
}

/// A loss and no obstacle: `heliostat ls`, `cat` and `cp` need no mount.
fn mounts() -> Check {
    let opened = File::options().read(true).write(true).open(DEVICE).map(drop);
    let may_mount = rustix::process::geteuid().is_root();
    judge(opened.map_err(|error| error.kind()), may_mount, find_helper().is_some())
}

fn judge(device: Result<(), ErrorKind>, may_mount: bool, has_helper: bool) -> Check {
    let name = "names as files (mount)";
    match device {
        Ok(()) if may_mount => Check::ok(name, "this user may mount"),
        Err(ErrorKind::NotFound) => Check::warn(
            name,
            format!("there is no {DEVICE}"),
            "modprobe fuse, or let it into the container; heliostat ls, cat and cp need none",
        ),
        _ if has_helper => Check::ok(name, "fusermount3 mounts for this user"),
        Ok(()) => Check::warn(
            name,
            "fusermount3 is not there, and this user may not mount",
            "install the package fuse3; heliostat ls, cat and cp need no mount",
        ),
        Err(error) => Check::warn(
            name,
            format!("{DEVICE} cannot be opened ({error}), and fusermount3 is not there"),
            "install the package fuse3; heliostat ls, cat and cp need no mount",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_mount_needs_the_helper_and_everybody_the_device() {
        let advice = |device, may_mount, has_helper| judge(device, may_mount, has_helper).advice;
        assert!(advice(Ok(()), true, false).is_empty());
        assert!(advice(Err(ErrorKind::PermissionDenied), false, true).is_empty());
        assert!(advice(Ok(()), false, false).contains("fuse3"));
        assert!(advice(Err(ErrorKind::NotFound), true, true).contains("modprobe"));
    }
}
