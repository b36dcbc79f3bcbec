//! An epoll set, driven as `bind/posix` drives it.

use std::mem::MaybeUninit;
use std::time::Duration;

use heliostat_base::call;
use heliostat_stub_posix::event::epoll::{self, Waited};

use super::pair::End;

const NOTHING: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

/// An epoll set, driven as `bind/posix` drives it.
pub struct Set(i32);

impl Set {
    /// An empty one.
    pub fn new() -> Self {
        // SAFETY: epoll_create1 takes no pointer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        epoll::created(epoll);
        Self(epoll)
    }

    /// Its descriptor.
    pub fn fd(&self) -> i32 {
        self.0
    }

    /// epoll_ctl(2).
    pub fn control(&self, op: i32, end: &End, events: u32) {
        let event = libc::epoll_event { events, u64: end.fd as u64 };
        let by_kernel = || call::epoll_ctl(self.0, op, end.fd, Some(event));
        assert_eq!(epoll::control(self.0, op, end.fd, Some(event), by_kernel), Some(Ok(0)));
    }

    /// Waits; the events of the only interest, 0 after the timeout.
    pub fn wait(&self, limit: Duration) -> u32 {
        let ends = heliostat_base::clock::monotonic_ns() + limit.as_nanos() as u64;
        loop {
            let mut out = [MaybeUninit::new(NOTHING); 4];
            let found = match epoll::look(self.0, &mut out, Some(ends), false) {
                Waited::Answer(answer) => answer,
                Waited::Sleep(ms) => {
                    let ns = u64::try_from(ms).ok().map(|ms| ms * 1_000_000);
                    let mut given = [NOTHING; 4];
                    let slept = call::epoll_wait(self.0, &mut given, ns, None);
                    epoll::woken(self.0, slept.map(|count| &given[..count]), &mut out, Some(ends))
                }
            };
            match found {
                Some(Ok(0)) => return 0,
                // SAFETY: all were initialised above.
                Some(Ok(_)) => return unsafe { out[0].assume_init() }.events,
                Some(Err(errno)) => panic!("{errno}"),
                None => {}
            }
        }
    }

    /// True when nothing is told for a while.
    pub fn is_quiet(&self) -> bool {
        self.wait(Duration::from_millis(30)) == 0
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        heliostat_stub_posix::process::closing(self.0);
        let _ = call::close(self.0);
    }
}
