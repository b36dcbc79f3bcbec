//! Memory of the loop's own for bytes whose place in a window the device cannot use.

use heliostat_backend_block::{BlockError, Buffer};

/// Bytes of one: a part that goes this way is no longer.
pub const BOUNCE_BYTES: usize = 64 << 10;
/// How many there are, made together when one is needed first.
const COUNT: usize = 16;

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BounceId(usize);

/// The bounce buffers of a loop.
#[derive(Default)]
pub struct Bounce {
    all: Option<Buffer>,
    free: Vec<BounceId>,
}

impl Bounce {
    /// One that nobody has, if there is one; its first bytes, so many at most.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn take(&mut self, bytes: usize) -> Result<Option<(BounceId, Buffer)>, BlockError> {
        if self.all.is_none() {
            self.all = Some(Buffer::new(BOUNCE_BYTES * COUNT)?);
            self.free = (0..COUNT).rev().map(BounceId).collect();
        }
        let Some(id) = self.free.pop() else { return Ok(None) };
        Ok(self.buffer(id, bytes).map(|buffer| (id, buffer)))
    }

    /// The first bytes of one that was taken.
    pub fn buffer(&self, id: BounceId, bytes: usize) -> Option<Buffer> {
        let all = self.all.as_ref()?;
        Some(all.part(id.0 * BOUNCE_BYTES, bytes.min(BOUNCE_BYTES)))
    }

    /// Nobody needs it any more.
    pub fn give_back(&mut self, id: BounceId) {
        self.free.push(id);
    }
}
