//! The word of one lease in the node page: says whether nobody writes the file.

use std::sync::atomic::{AtomicU32, Ordering};

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::{self, State};
use heliostat_backend_lease::reader::Promise;
use heliostat_base::mapping::SharedMapping;

/// The word of one lease; lives as long as the process.
#[derive(Clone, Copy)]
pub struct LeaseWord {
    page: &'static SharedMapping,
    id: ObjectId,
}

impl LeaseWord {
    /// The lease's word in the node page.
    pub fn new(page: &'static SharedMapping, id: ObjectId) -> LeaseWord {
        LeaseWord { page, id }
    }

    /// Says what holds for the lease.
    pub fn set(self, state: State) {
        self.word().store(node::word_of(self.id, state), Ordering::Release);
    }

    /// Makes it Revoked if it is Active.
    pub fn withdraw(self) {
        self.promise().end(node::word_of(self.id, State::Revoked));
    }

    /// Whether the lease holds. What was copied before this was asked, was copied under it.
    #[inline]
    pub fn is_active(self) -> bool {
        self.promise().has_held()
    }

    fn promise(self) -> Promise {
        Promise { word: self.word(), value: node::word_of(self.id, State::Active) }
    }

    #[inline]
    fn word(self) -> &'static AtomicU32 {
        self.page.atomic_u32(node::lease_word(self.id.index))
    }
}
