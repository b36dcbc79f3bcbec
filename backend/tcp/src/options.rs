//! What a socket has been told, and how many descriptors its process may have.

use heliostat_base::sys::{check, raw, Sysno};

/// How long a close waits for its peer (SO_LINGER); none where it does not wait by that.
pub fn linger_seconds(fd: i32) -> Option<i32> {
    let mut linger = [0i32; 2];
    get(fd, libc::SO_LINGER, &mut linger)?;
    (linger[0] != 0).then_some(linger[1])
}

/// Gives one socket the timeouts of receiving and sending that another has.
pub fn copy_timeouts(from: i32, to: i32) {
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let mut time = [0i64; 2];
        if get(from, name, &mut time).is_some() && time != [0; 2] {
            let at = time.as_ptr() as usize;
            let args = [to as usize, libc::SOL_SOCKET as usize, name as usize, at, 16, 0];
            // SAFETY: two live words laid out as a timeval.
            let _ = unsafe { raw(Sysno::setsockopt as usize, args) };
        }
    }
}

fn get<T, const WORDS: usize>(fd: i32, name: i32, value: &mut [T; WORDS]) -> Option<()> {
    let mut length = size_of_val(value) as u32;
    let (at, length_at) = (value.as_mut_ptr() as usize, &raw mut length as usize);
    let args = [fd as usize, libc::SOL_SOCKET as usize, name as usize, at, length_at, 0];
    // SAFETY: the room has as many bytes as its length says, and both are live.
    check(unsafe { raw(Sysno::getsockopt as usize, args) }).ok().map(|_| ())
}

/// How many descriptors this process may have (RLIMIT_NOFILE, the soft limit).
pub fn descriptors_max() -> u64 {
    let mut limits = [0u64; 2];
    let at = limits.as_mut_ptr() as usize;
    let args = [0, libc::RLIMIT_NOFILE as usize, 0, at, 0, 0];
    // SAFETY: two live words laid out as an rlimit64; pid 0 is this process.
    match check(unsafe { raw(Sysno::prlimit64 as usize, args) }) {
        Ok(_) => limits[0],
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn timeouts_are_copied_and_a_socket_that_lingers_says_for_how_long() {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
        copy_timeouts(one.as_raw_fd(), other.as_raw_fd());
        assert_eq!(other.read_timeout().unwrap(), Some(Duration::from_millis(1500)));
        assert_eq!(other.write_timeout().unwrap(), None);
        assert_eq!(linger_seconds(one.as_raw_fd()), None);
        assert!(descriptors_max() > 0);
    }
}
