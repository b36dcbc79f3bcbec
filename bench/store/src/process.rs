//! Forked helpers: the one that writes a checkpoint, and the one that watches memory.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::Failure;

/// Runs `child` in a forked process on `core`; its pid.
pub fn forked(core: usize, child: impl FnOnce() -> Result<(), Failure>) -> Result<i32, Failure> {
    // SAFETY: this process has one thread, and the child ends by _exit without returning.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            // SAFETY: asks the kernel to end this child with its parent; no pointer is passed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let _ = heliostat_base::affinity::pin(core);
            let answer = child();
            if let Err(error) = &answer {
                eprintln!("helper: {error}");
            }
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(answer.is_err())) }
        }
        pid => Ok(pid),
    }
}

/// Waits for a child; an error unless it ended well.
pub fn wait_for(pid: i32) -> Result<(), Failure> {
    let mut status = 0;
    // SAFETY: a child of ours, and a live word for its status.
    match unsafe { libc::waitpid(pid, &mut status, 0) == pid && status == 0 } {
        true => Ok(()),
        false => Err("a helper failed".into()),
    }
}

/// Ends a child.
pub fn end(pid: i32) {
    // SAFETY: a child of ours; neither call takes a pointer but null.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Writes a checkpoint, in pieces as a server would, and waits until the disk has it.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = std::fs::File::create(path)?;
    bytes.chunks(1 << 20).try_for_each(|piece| file.write_all(piece))?;
    // SAFETY: an open descriptor, no pointer.
    match unsafe { libc::fdatasync(file.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Memory that a process has to itself, and its share of what it has with others, in bytes.
pub fn share_of_memory(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
