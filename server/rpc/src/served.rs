//! A function as the loop has to know it.

use heliostat_abi::name::ObjectId;

/// A function as the loop has to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedFunction {
    /// Its identity.
    pub function: ObjectId,
    /// Whose it is: its messages that wait count against this user's share.
    pub user: u32,
    /// Bytes that a call's payload may have.
    pub request_bytes: u32,
    /// Bytes that a reply may have.
    pub reply_bytes: u32,
    /// Messages sent one way that may wait.
    pub queue: u32,
}
