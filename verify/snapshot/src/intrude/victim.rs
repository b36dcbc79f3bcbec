//! Means that go through the producer's process: a consumer of another user, or in another
//! container, has no right to any of them.

use std::ffi::CString;

/// What got anywhere. Without a process to attack it looks for any that is not its own.
pub fn attack(pid: i32) -> Vec<String> {
    if pid == 0 {
        println!("producer: not named, so not attacked");
        return Vec::new();
    }
    type Attempt = fn(i32) -> bool;
    let attempts: [(&str, Attempt); 5] = [
        ("process_vm_writev", |pid| {
            let (mut byte, at) = ([0u8], std::ptr::null_mut());
            let from = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
            let into = libc::iovec { iov_base: at, iov_len: 1 };
            // SAFETY: a live byte; nothing is mapped at null, so who has the right gets a fault.
            let answer = unsafe { libc::process_vm_writev(pid, &from, 1, &into, 1, 0) };
            answer >= 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
        }),
        // SAFETY: no pointer of ours is looked at.
        ("ptrace", |pid| unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) == 0 }),
        ("/proc/PID/mem", |pid| is_opened(&format!("/proc/{pid}/mem"))),
        ("/proc/PID/fd", |pid| (3..40).any(|fd| is_opened(&format!("/proc/{pid}/fd/{fd}")))),
        ("pidfd_getfd", |pid| {
            // SAFETY: takes no pointer.
            unsafe {
                let known = libc::syscall(libc::SYS_pidfd_open, pid, 0);
                (3..40).any(|fd| libc::syscall(libc::SYS_pidfd_getfd, known, fd, 0) >= 0)
            }
        }),
    ];
    let mut won = Vec::new();
    for (name, attempt) in attempts {
        let got = attempt(pid);
        println!("producer: {name}: {}", if got { "NOT REFUSED" } else { "refused" });
        if got {
            won.push(format!("producer: {name}"));
        }
    }
    won
}

fn is_opened(path: &str) -> bool {
    let path = CString::new(path).unwrap_or_default();
    // SAFETY: a live path; the descriptor ends with the process.
    unsafe { libc::open(path.as_ptr(), libc::O_RDWR) >= 0 }
}
