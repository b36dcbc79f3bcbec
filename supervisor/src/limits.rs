//! Limits of the kernel's own that a sealed program and its supervisor begin with.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Memory of each process by itself, where there is no control group. Shared memory is not in it.
pub fn limit_each(bytes: u64) -> rustix::io::Result<()> {
    setrlimit(Resource::Data, Rlimit { current: Some(bytes), maximum: Some(bytes) })
}

/// Lets this process have as many descriptors as it may; what it had before.
pub fn raise_descriptors() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// For the program, which may make tables of that size.
pub fn restore_descriptors(before: Rlimit) {
    let _ = setrlimit(Resource::Nofile, before);
}
