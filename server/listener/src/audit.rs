//! How many connections of a worker are open, as the kernel counts them.
//!
//! An epoll set holds no reference to what is in it: a connection whose last descriptor is closed,
//! wherever that was, leaves the set by itself. So each connection that is given to a worker is put
//! into a set of the worker's, for no event, and the set's entry in /proc tells which are left.

use std::collections::HashSet;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// Longest list that is read: some 100 bytes for each connection.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// The set of one worker.
pub struct Audit(OwnedFd);

impl Audit {
    /// An empty set.
    pub fn create() -> Result<Audit, Errno> {
        Ok(Audit(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Counts a connection from now on until it is closed. Where the kernel has no room for it, it is
    /// not counted.
    pub fn add(&self, connection: impl AsFd, serial: u64) {
        // Edge-triggered and for one event: nobody waits on the set.
        let flags = EventFlags::ET | EventFlags::ONESHOT;
        let _ = epoll::add(&self.0, connection, EventData::new_u64(serial), flags);
    }

    /// The connections that are open now, by number; none where /proc does not say.
    pub fn open(&self) -> Option<HashSet<u64>> {
        let path = format!("/proc/self/fdinfo/{}", self.0.as_raw_fd());
        let file = std::fs::File::open(path).ok()?;
        let mut text = String::new();
        file.take(LIST_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text.lines().filter_map(serial).collect())
    }
}

/// The number in a line of the list (source: proc_pid_fdinfo(5)).
fn serial(line: &str) -> Option<u64> {
    let data = line.strip_prefix("tfd:")?.split("data:").nth(1)?;
    u64::from_str_radix(data.split_whitespace().next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_counts_until_its_last_descriptor_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let audit = Audit::create().unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (first, _) = listener.accept().unwrap();
        audit.add(&first, 0x1f);
        let second = first.try_clone().unwrap();
        drop(first);
        assert_eq!(audit.open(), Some(HashSet::from([0x1f])));
        drop(second);
        assert_eq!(audit.open(), Some(HashSet::new()));
    }

    #[test]
    fn lines_of_other_kinds_have_no_number() {
        assert_eq!(serial("pos:\t0"), None);
        assert_eq!(
            serial("tfd:        5 events:       19 data:               2a  pos:0"),
            Some(42)
        );
    }
}
