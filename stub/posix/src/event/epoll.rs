//! epoll(7) over direct and native descriptors mixed; the sets are in `net::watch`.
//!
//! - `control`: epoll_ctl(2)
//! - `wait`: epoll_wait(2), in looks and sleeps

mod control;
mod wait;

pub use control::control;
pub use wait::{look, woken, Waited};

use crate::net::watch::sets;
use crate::owner;
use crate::thread::Critical;

/// After epoll_create(2) gave `epoll`.
pub fn created(epoll: i32) {
    if !owner::is_borrowed() {
        let _critical = Critical::enter();
        sets::begin(epoll, None);
    }
}
