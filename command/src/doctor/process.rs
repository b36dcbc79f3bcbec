//! Processes: identity over unix sockets, and whether the stub can be loaded.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use heliostat_base::process::{peer_credentials, pid, PidFd};
use rustix::net::{socket_with, AddressFamily, SocketFlags, SocketType};

use super::Check;
use crate::stub::find_stub;

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![seqpacket(), credentials(), pidfd(), peer_pidfd(), preload(), super::patching::check()]
}

fn seqpacket() -> Check {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Check::of(
        "unix seqpacket sockets",
        socket_with(family, kind, SocketFlags::CLOEXEC, None),
        "control sockets can be made",
        "AF_UNIX SEQPACKET is refused: a seccomp filter or security module; allow it",
    )
}

fn credentials() -> Check {
    let name = "identity (SO_PEERCRED)";
    let found = UnixStream::pair().map(|(one, _other)| peer_credentials(one.as_raw_fd()));
    match found {
        Ok(Ok(found)) if found.pid == pid() => Check::ok(name, "the kernel says who connects"),
        other => Check::fail(name, format!("{other:?}"), "identity cannot be had on this kernel"),
    }
}

fn pidfd() -> Check {
    Check::of(
        "process handles (pidfd)",
        PidFd::open(pid()),
        "a process's end is noticed at once",
        "pidfd_open(2) is refused: a seccomp filter or a kernel before 5.3",
    )
}

fn peer_pidfd() -> Check {
    let name = "peer handles (SO_PEERPIDFD)";
    let found = UnixStream::pair().map(|(one, _other)| PidFd::of_peer(one.as_raw_fd()));
    match found {
        Ok(Ok(_)) => Check::ok(name, "a peer's end is noticed at once"),
        _ => Check::warn(
            name,
            "not there",
            "Linux 6.5 or later has it; without, only a closed control socket shows an end",
        ),
    }
}

/// Loads the stub into a small program, as `run` does.
fn preload() -> Check {
    let name = "preloading (LD_PRELOAD)";
    let stub = match find_stub() {
        Ok(stub) => stub,
        Err(error) => return Check::fail(name, error, "build it, or set HELIOSTAT_STUB"),
    };
    // A socket that nobody serves, so that the trial touches no control plane.
    let trial = Command::new("/bin/cat")
        .arg("/proc/self/maps")
        .env("LD_PRELOAD", &stub)
        .env("HELIOSTAT_SOCKET", "/nonexistent/heliostat-doctor")
        .stdin(Stdio::null())
        .output();
    match trial {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains(crate::stub::STUB) => {
            Check::ok(name, stub.display().to_string())
        }
        Ok(output) => Check::fail(
            name,
            format!("the loader ignores it: {}", String::from_utf8_lossy(&output.stderr).trim()),
            "the stub and this machine's C library do not fit: build it here",
        ),
        Err(error) => Check::fail(name, error.to_string(), "/bin/cat does not run"),
    }
}
