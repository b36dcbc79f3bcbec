//! Files: whether the kernel gives leases, which reading from mappings stands on.

use std::fs::{remove_file, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use heliostat_backend_lease::holder;

use super::Check;

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![
        leases("file leases here", Path::new(".")),
        leases("file leases in /tmp", Path::new("/tmp")),
    ]
}

/// A loss and no obstacle: without leases reads go through the kernel as ever.
fn leases(name: &'static str, folder: &Path) -> Check {
    let sample = folder.join(format!(".heliostat-doctor-{}", std::process::id()));
    match make(&sample) {
        Err(error) => Check::ok(name, format!("not tried, no file can be made: {error}")),
        Ok(file) => match holder::take(file.as_fd()) {
            Ok(()) => Check::ok(name, "cached files can be read without the kernel"),
            Err(errno) => Check::fail(
                name,
                errno.to_string(),
                "files are read by the kernel: this file system has no leases, or \
                 /proc/sys/fs/leases-enable is 0",
            )
            .softened(),
        },
    }
}

/// A file that only the answer has.
fn make(sample: &Path) -> io::Result<File> {
    File::create_new(sample)?;
    let opened = File::open(sample);
    remove_file(sample)?;
    opened
}
