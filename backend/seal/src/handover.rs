//! How a filter's listener comes from the program's process to the supervisor's.
//!
//! It is copied out of that process by its number. Where containers refuse that, a second thread of
//! the process sends it: it is not behind the filter, which is put up for the first one alone, and
//! has ended before the program begins.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use super::{copies_descriptors, descriptor_of};
use heliostat_base::fd::OwnedFd;
use heliostat_base::packet;
use heliostat_base::sys::Errno;

/// Made before the fork; each side uses its own half.
#[derive(Debug)]
pub struct Handover(Option<(UnixStream, UnixStream)>);

impl Handover {
    /// By copying, or over a socket pair where there is no other way.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn new() -> Result<Self, Errno> {
        if copies_descriptors() {
            return Ok(Self(None));
        }
        Ok(Self(Some(UnixStream::pair().map_err(number)?)))
    }

    /// Whether it is done by copying.
    pub fn copies(&self) -> bool {
        self.0.is_none()
    }

    /// The program's side: makes the listener, which puts this thread behind its filter, and sends
    /// it. The answer stays open here until exec, for the other side to copy.
    ///
    /// # Errors
    /// Those of `install`; EAGAIN if there can be no thread.
    pub fn give(self, install: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
        let Some((_, sender)) = self.0 else { return install() };
        let (tell, told) = mpsc::channel::<RawFd>();
        let send = move || {
            let Ok(listener) = told.recv() else { return };
            let _ = packet::send(sender.as_raw_fd(), &[0], &[listener]);
        };
        let courier = std::thread::Builder::new().spawn(send).map_err(number)?;
        let installed = install();
        if let Ok(listener) = &installed {
            let _ = tell.send(listener.as_raw_fd());
        }
        drop(tell);
        let _ = courier.join();
        installed
    }

    /// The supervisor's side: the listener that is descriptor `listener` of `process`.
    ///
    /// # Errors
    /// Those of pidfd_getfd(2), or ECONNRESET if nothing was sent.
    pub fn take(self, process: i32, listener: RawFd) -> Result<OwnedFd, Errno> {
        let Some((receiver, sender)) = self.0 else { return descriptor_of(process, listener) };
        // Else nobody would hear of a sender that has died.
        drop(sender);
        let (_, mut sent) = packet::receive(receiver.as_raw_fd(), &mut [0])?;
        sent.pop().ok_or(Errno(libc::ECHILD))
    }
}

fn number(error: std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_base::sys::{check, raw, Sysno};

    /// Whether the kernel refuses to copy a descriptor whosever it is, as the default filters of
    /// containers have it do: of no process the call fails in any case, allowed with EBADF.
    fn refuses_copies() -> bool {
        // SAFETY: the call takes no pointer.
        let answer = unsafe { raw(Sysno::pidfd_getfd as usize, [usize::MAX, 0, 0, 0, 0, 0]) };
        check(answer) != Err(Errno(libc::EBADF))
    }

    #[test]
    fn it_is_copied_wherever_that_is_not_refused() {
        assert_eq!(Handover::new().expect("made").copies(), !refuses_copies());
    }

    #[test]
    fn what_was_made_arrives_whichever_way() {
        let pair = || Some(UnixStream::pair().expect("a pair"));
        let mut ways = vec![Handover(pair())];
        match refuses_copies() {
            true => eprintln!("skipped: pidfd_getfd(2) is refused here"),
            false => ways.push(Handover(None)),
        }
        for way in ways {
            let other = Handover(way.0.as_ref().map(|(one, other)| {
                (one.try_clone().expect("a copy"), other.try_clone().expect("a copy"))
            }));
            let made = || {
                Ok(OwnedFd::from(std::os::fd::OwnedFd::from(
                    std::fs::File::open("/dev/null").expect("/dev/null"),
                )))
            };
            let kept = way.give(made).expect("made");
            let taken = other.take(std::process::id() as i32, kept.as_raw_fd()).expect("taken");
            let name = |fd: &OwnedFd| {
                std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("open")
            };
            assert_eq!(name(&taken), name(&kept));
        }
    }

    #[test]
    fn nobody_waits_for_what_could_not_be_made() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let way = Handover(Some((one.try_clone().expect("a copy"), other)));
        assert!(way.give(|| Err(Errno(libc::EBUSY))).is_err_and(|error| error.0 == libc::EBUSY));
        let (_, unused) = UnixStream::pair().expect("a pair");
        assert!(Handover(Some((one, unused)))
            .take(1, 3)
            .is_err_and(|error| error.0 == libc::ECONNRESET));
    }
}
