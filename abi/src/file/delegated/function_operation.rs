//! Operations on functions, as a session's rings and its call line carry them.
//!
//! ```text
//! kind     object    offset  argument           pieces                        result
//! Call     function  0       0                  where the reply goes,         bytes of the reply,
//!                                               perhaps the payload           CALL_FAILED besides
//! Send     function  0       SEND_NOW or 0      perhaps the payload           0: it is in line
//! Receive  function  status  token to answer    where a call goes: a head     HEAD_BYTES and those
//!                            first, or 0        and its payload; perhaps      of the payload
//!                                               the reply's payload
//! Reply    function  status  token              perhaps the reply's payload   0
//! ```
//! The status of a reply is 0, or [`REPLY_FAILED`]: the function ran and says no.
//!
//! | errno | the call |
//! |---|---|
//! | EBADF, EACCES, EMSGSIZE, ESTALE, EAGAIN | was not delivered: no handle, no right, too long, nobody serves the function any more, no room in line |
//! | ETIMEDOUT, ECANCELED | was not delivered before its time was over, or before it was cancelled |
//! | ETIME, EINTR | was delivered, and not answered before its time was over, or before it was cancelled |
//! | EOWNERDEAD | was delivered to a server that ended before it answered |
//! | EHOSTDOWN | was not delivered: the function's node is not joined |
//! | ECONNRESET | may have been delivered: the function's node was lost meanwhile |
//! | EREMOTEIO | may have been delivered: the function's node broke the protocol |
//!
//! A reply that nobody waits for is ENOENT; a Receive that answers first says so in the head.

use crate::name::ObjectId;
use crate::wire::{Reader, Writer};

/// Bytes in front of a received payload.
pub const HEAD_BYTES: usize = 64;
/// Send's argument: where there is no room in line the answer is EAGAIN at once.
pub const SEND_NOW: u64 = 1;
/// The status of a reply by which a function says no; the payload says why.
pub const REPLY_FAILED: u64 = 1;
/// Added to the bytes in a call's result where the reply's status is [`REPLY_FAILED`].
pub const CALL_FAILED: u64 = 1 << 32;
/// In a head's flags: whoever the reply that came along was for did not wait any more.
pub const NOBODY_WAITED: u32 = 1;

/// What a server is told of a call in front of its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallHead {
    /// By this it is answered, once; 0 for what was sent one way.
    pub token: u64,
    /// The caller's session, as the kernel proved it to the control plane.
    pub session: ObjectId,
    /// The caller's user.
    pub user: u32,
    /// The caller's process.
    pub process: u32,
    /// The node that it calls from.
    pub node: u32,
    /// Bytes of the payload.
    pub bytes: u32,
    /// [`NOBODY_WAITED`], or 0.
    pub flags: u32,
    /// Microseconds for which the caller still waits; 0 for ever.
    pub left_us: u64,
}

impl CallHead {
    /// Its bytes, as they are put into the window.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u64(self.token);
        self.session.encode(&mut w);
        w.u32(self.user).u32(self.process).u32(self.node).u32(self.bytes).u32(self.flags).u32(0);
        w.u64(self.left_us);
        bytes
    }

    /// The head in bytes that were copied from the window; every value is possible.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> CallHead {
        let mut r = Reader::new(bytes);
        let (token, session) = (r.u64(), ObjectId::decode(&mut r));
        let (user, process, node) = (r.u32(), r.u32(), r.u32());
        let (bytes, flags, _) = (r.u32(), r.u32(), r.u32());
        CallHead { token, session, user, process, node, bytes, flags, left_us: r.u64() }
    }
}

/// A token as it travels: never 0, since generations are not.
pub const fn token_of(call: ObjectId) -> u64 {
    (call.generation as u64) << 32 | call.index as u64
}

/// The call that a token means.
pub const fn call_of(token: u64) -> ObjectId {
    ObjectId { index: token as u32, generation: (token >> 32) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_tokens_come_back_as_they_were() {
        let session = ObjectId { index: 7, generation: 9 };
        let head = CallHead {
            token: token_of(ObjectId { index: 3, generation: 4 }),
            session,
            user: 1000,
            process: 77,
            node: 0,
            bytes: 1 << 20,
            flags: NOBODY_WAITED,
            left_us: u64::MAX,
        };
        assert_eq!(CallHead::decode(&head.encode()), head);
        assert_eq!(call_of(head.token), ObjectId { index: 3, generation: 4 });
    }
}
