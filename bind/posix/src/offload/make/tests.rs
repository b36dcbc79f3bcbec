//! What is given back, what is made, and what is told of it.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::*;

fn asked(number: Sysno, args: [u64; 4]) -> Asked {
    let [first, second, third, fourth] = args;
    Asked { number: number as u32, args: [first, second, third, fourth, 0, 0] }
}

fn on(number: Sysno, end: &impl AsRawFd, bytes: &[u8]) -> Made {
    let fd = end.as_raw_fd() as u64;
    make(&asked(number, [fd, bytes.as_ptr() as u64, bytes.len() as u64, 0]))
}

#[test]
fn what_would_wait_is_given_back_and_what_is_there_is_read() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let mut room = [0; 8];
    for number in [Sysno::read, Sysno::recvfrom] {
        assert_eq!(on(number, &far, &room), Made::Waits);
        near.write_all(b"abc").unwrap();
        assert_eq!(on(number, &far, &room), Made::Result(3));
    }
    drop(near);
    assert_eq!(on(Sysno::read, &far, &room), Made::Result(0));
    assert_eq!((&far).read(&mut room).unwrap(), 0);
}

#[test]
fn what_a_socket_or_pipe_does_not_take_at_once_is_left_to_the_thread() {
    let (near, _far) = UnixStream::pair().unwrap();
    let many = vec![1; 8 << 20];
    for number in [Sysno::write, Sysno::sendto] {
        let first = on(number, &near, &many);
        assert!(matches!(first, Made::Part(_) | Made::Waits), "{first:?}");
    }
    near.set_nonblocking(true).unwrap();
    let full = on(Sysno::write, &near, &many);
    assert_eq!(full, Made::Result(-i64::from(libc::EAGAIN)));
}

#[test]
fn the_time_of_a_call_is_told_without_the_look_before_it() {
    let file = std::fs::File::open("/etc/passwd").unwrap();
    let room = [0u8; 8];
    let read = asked(Sysno::read, [file.as_raw_fd() as u64, room.as_ptr() as u64, 8, 0]);
    let job = Job::new(read);
    let before = cycles();
    assert_eq!(made(&job), Made::Result(8));
    assert!(job.began.get() > before, "after the look");
    assert_eq!(make_timed(&read).0, Made::Result(8));
    let (made, took) = make_timed(&asked(Sysno::getpid, [0; 4]));
    assert!(matches!(made, Made::Result(_)) && took < 1 << 40, "{took}");
}

#[test]
fn a_file_is_opened_and_a_fifo_is_not() {
    let folder = std::env::temp_dir().join(format!("heliostat-make-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = |name: &str| {
        std::ffi::CString::new(folder.join(name).into_os_string().into_encoded_bytes()).unwrap()
    };
    let (file, fifo) = (name("file"), name("fifo"));
    // SAFETY: a path that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let flags = (libc::O_CREAT | libc::O_RDWR) as u64;
    let open = |path: &std::ffi::CStr| {
        let folder = libc::AT_FDCWD as u64;
        make(&asked(Sysno::openat, [folder, path.as_ptr() as u64, flags, 0o600]))
    };
    let Made::Result(fd @ 0..) = open(&file) else { panic!("a file is opened") };
    assert_eq!(make(&asked(Sysno::close, [fd as u64, 0, 0, 0])), Made::Result(0));
    assert_eq!(open(&fifo), Made::Waits);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_of_the_kernel_are_their_threads_own() {
    let open = |path: &str, writes: bool| {
        std::fs::OpenOptions::new().read(!writes).write(writes).open(path).unwrap()
    };
    let status = open("/proc/self/status", false);
    let room = [0; 8];
    for number in [Sysno::read, Sysno::pread64] {
        assert_eq!(on(number, &status, &room), Made::Plain);
    }
    let comm = open("/proc/thread-self/comm", true);
    assert_eq!(on(Sysno::write, &comm, b"x"), Made::Plain);
    assert_eq!(on(Sysno::writev, &comm, b"x"), Made::Plain);
}

#[test]
fn a_connection_that_begins_with_its_first_bytes_is_waited_for_by_its_thread() {
    assert_eq!(unless_waits(-i64::from(libc::EINPROGRESS)), Made::Plain);
    assert_eq!(unless_refused(-i64::from(libc::EALREADY)), Made::Plain);
    let (near, _far) = UnixStream::pair().unwrap();
    let fast = [near.as_raw_fd() as u64, 0, 0, libc::MSG_FASTOPEN as u64];
    assert_eq!(make(&asked(Sysno::sendto, fast)), Made::Plain);
}

#[test]
fn a_signal_to_this_process_is_its_threads_own_call() {
    let own = u64::from(std::process::id());
    assert_eq!(make(&asked(Sysno::kill, [own, 0, 0, 0])), Made::Plain);
    assert_eq!(make(&asked(Sysno::kill, [0, 0, 0, 0])), Made::Plain);
    assert_eq!(make(&asked(Sysno::kill, [1, 0, 0, 0])), Made::Result(0));
}
