//! A program that holds the kernel's lock of a socket: it makes a call on it that faults in memory
//! whose faults it answers itself (userfaultfd(2)), and answers none.
//!
//! It is this test program once more, with the socket as its standard input, so that it can be killed.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};

/// What the second program is told, by this variable.
const VARIABLE: &str = "HELIOSTAT_TEST_HOLDS";
/// Requests and one mode of userfaultfd (source: linux/userfaultfd.h).
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const MODE_MISSING: u64 = 1;
const UFFD_API: u64 = 0xaa;
const PAGE: usize = 4096;
/// Longest wait for a fault, which takes microseconds.
const FAULT_WAIT_MS: i32 = 60_000;

/// By which call.
#[derive(Clone, Copy)]
pub enum By {
    /// setsockopt(2) of a filter, whose text is copied under the socket's lock.
    Option,
    /// recvmsg(2), which copies under the lock of a unix socket's queue.
    Receive,
}

/// The program; killed with the value.
pub struct LockHolder(Child);

impl LockHolder {
    /// Holds the lock of a socket; none where nobody may. `test` is the one that calls
    /// `hold_if_told`. Panics where somebody may, and the call does not come to hold it.
    pub fn of(socket: impl AsFd, by: By, test: &str) -> Option<LockHolder> {
        let word = match by {
            By::Option => "option",
            By::Receive => "receive",
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(VARIABLE, word)
            .stdin(Stdio::from(socket.as_fd().try_clone_to_owned().unwrap()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        let mut holder = LockHolder(child);
        let is_held = told.lines().map_while(Result::ok).any(|line| line.contains("is held"));
        if !is_held {
            assert!(holder.0.wait().unwrap().success(), "the lock was not held");
            eprintln!("skipped: no userfaultfd here");
        }
        is_held.then_some(holder)
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the second program: holds the lock until it is killed.
pub fn hold_if_told() {
    let Ok(word) = std::env::var(VARIABLE) else { return };
    // SAFETY: takes no pointer: whoever started this ends it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let Some((faults, page)) = page_without_answer() else { return };
    std::thread::spawn(move || {
        match word.as_str() {
            "option" => attach_filter(page),
            _ => receive_into(page),
        }
        // It has met no fault, or holds the lock no more.
        std::process::exit(1);
    });
    let mut heard = libc::pollfd { fd: faults, events: libc::POLLIN, revents: 0 };
    // SAFETY: one record that lives as long as the call.
    unsafe { libc::poll(&mut heard, 1, FAULT_WAIT_MS) };
    if heard.revents != libc::POLLIN {
        std::process::exit(1);
    }
    let mut message = [0u8; 32];
    // SAFETY: the room has as many bytes as are asked for.
    let told = unsafe { libc::read(faults, message.as_mut_ptr().cast(), message.len()) };
    assert_eq!(told, 32);
    std::io::stdout().write_all(b"the lock is held\n").unwrap();
    loop {
        std::thread::park();
    }
}

/// A page that is not there, and the descriptor that hears of faults in it.
fn page_without_answer() -> Option<(i32, usize)> {
    // Without O_NONBLOCK poll(2) says POLLERR (source: userfaultfd(2)).
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes no pointer.
    let faults = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as i32;
    if faults < 0 {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever the kernel likes.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0) };
    let mut api = [UFFD_API, 0, 0];
    let mut register = [page as u64, PAGE as u64, MODE_MISSING, 0];
    // SAFETY: both requests read and write as many words as their structures have.
    let done = unsafe {
        libc::ioctl(faults, UFFDIO_API, api.as_mut_ptr())
            | libc::ioctl(faults, UFFDIO_REGISTER, register.as_mut_ptr())
    };
    (done == 0).then_some((faults, page as usize))
}

fn attach_filter(page: usize) {
    let filter = libc::sock_fprog { len: 1, filter: page as *mut libc::sock_filter };
    let (at, length) = ((&raw const filter).cast(), size_of_val(&filter) as u32);
    // SAFETY: the option is one `sock_fprog`; its text is memory of this program.
    unsafe { libc::setsockopt(0, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, length) };
}

fn receive_into(page: usize) {
    // SAFETY: the page is memory of this program that nothing else uses.
    unsafe { libc::recv(std::io::stdin().as_raw_fd(), page as *mut libc::c_void, 32, 0) };
}
