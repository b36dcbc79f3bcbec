//! What a queue's user sleeps on: readable when the device may have something, or the queue itself has.
//!
//! A queue looks at its device also when it begins something. What it finds then lies with the queue, and
//! the device's descriptor tells of it no more; so the queue rings a bell of its own.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use heliostat_base::call;
use heliostat_base::event::Event;
use heliostat_base::sys::Errno;

/// A set of the device's descriptor and the queue's bell.
pub struct News {
    set: Arc<OwnedFd>,
    bell: Event,
    is_rung: bool,
    _device: Arc<OwnedFd>,
}

impl News {
    /// Of a device that tells by this descriptor.
    ///
    /// # Errors
    /// The system has no descriptor, or no memory.
    pub fn of(device: Arc<OwnedFd>) -> Result<News, Errno> {
        let (set, bell) = (call::epoll_create()?, Event::create()?);
        for fd in [device.as_raw_fd(), bell.as_raw_fd()] {
            let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            call::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, Some(event))?;
        }
        Ok(News { set: Arc::new(set.into()), bell, is_rung: false, _device: device })
    }

    /// The descriptor.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.set.clone()
    }

    /// The queue has, or has not, what nobody has taken. A bell that cannot be rung leaves the device's word.
    pub fn tell(&mut self, has_some: bool) {
        if std::mem::replace(&mut self.is_rung, has_some) == has_some {
            return;
        }
        let _ = match has_some {
            true => self.bell.ring(),
            false => self.bell.drain().map(drop),
        };
    }
}
