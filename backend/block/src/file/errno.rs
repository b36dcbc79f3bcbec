//! Error numbers that decide something here (source: errno(3)).

pub(super) const EIO: i32 = 5;
pub(super) const EAGAIN: i32 = 11;
pub(super) const EFAULT: i32 = 14;
pub(super) const EBUSY: i32 = 16;
pub(super) const EINVAL: i32 = 22;
pub(super) const EFBIG: i32 = 27;
pub(super) const ENOSPC: i32 = 28;
pub(super) const EOPNOTSUPP: i32 = 95;
pub(super) const EDQUOT: i32 = 122;
