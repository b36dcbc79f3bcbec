//! One operation on an area, from when it is taken until its last part has ended.

use std::sync::Arc;

use heliostat_abi::file::delegated::{OpKind, Pieces};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::OperationId;

/// What a flush takes of a rate: it moves nothing, and has the device work all the same.
const FLUSH_COST_BYTES: u64 = 4096;

/// An operation that was checked.
pub struct Job {
    /// Which one it is on the loop.
    pub id: OperationId,
    /// Whose.
    pub session: ObjectId,
    /// By which handle.
    pub handle: ObjectId,
    /// On which area.
    pub area: ObjectId,
    /// What is done.
    pub kind: OpKind,
    /// First byte in the area.
    pub offset: u64,
    /// Number of bytes; none of a flush.
    pub bytes: u64,
    /// Where in the window.
    pub pieces: Pieces,
    /// The session's window, which stays mapped.
    pub window: Arc<SharedMapping>,
    /// How many of its bytes come before its next part; none when all parts have begun.
    pub next: Option<u64>,
    /// Parts that the device has.
    pub under_way: u32,
    /// Why it fails.
    pub failed: Option<i32>,
    /// Its area's rate has let it pass.
    pub is_paid: bool,
}

impl Job {
    /// Bytes that it takes of its area's rate.
    pub fn cost(&self) -> u64 {
        match self.kind {
            OpKind::Fsync => FLUSH_COST_BYTES,
            _ => self.bytes,
        }
    }

    /// Whether nothing of it is under way, and nothing more begins.
    pub fn is_over(&self) -> bool {
        self.under_way == 0 && (self.next.is_none() || self.failed.is_some())
    }

    /// Nothing more of it begins. What has begun as a whole ends as it would.
    pub fn cut(&mut self, errno: i32) {
        if self.next.is_some() {
            self.failed = self.failed.or(Some(errno));
        }
    }

    /// What its session is told.
    pub fn result(&self) -> i64 {
        self.failed.map_or(self.bytes as i64, |errno| -i64::from(errno))
    }

    /// Whether it moves bytes between the device and the window.
    pub fn is_transfer(&self) -> bool {
        matches!(self.kind, OpKind::Read | OpKind::Write | OpKind::WriteDurable)
    }
}
