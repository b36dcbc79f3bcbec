//! Questions who may map a region: who asked what, who answers, and until when.

use std::collections::BTreeMap;

use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;

use crate::asker::Asker;

/// Questions that one session has to answer at a time.
pub const QUESTIONS_MAX: usize = 64;

/// A question that nobody has answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) asker: Asker,
    pub(crate) process: u32,
    pub(crate) region: ObjectId,
    pub(crate) rights: Rights,
    pub(crate) judge: ObjectId,
    pub(crate) is_told: bool,
    pub(crate) until_ns: u64,
}

/// All questions, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    pub(crate) last: u64,
    pub(crate) open: BTreeMap<u64, Open>,
}

impl Questions {
    /// A session has ended: nobody waits for what it asked, and what it was asked is never answered.
    pub(crate) fn forget(&mut self, session: ObjectId) {
        self.open.retain(|_, open| open.asker.session != session);
        let of_judge = self.open.values_mut().filter(|open| open.judge == session);
        of_judge.for_each(|open| open.until_ns = 0);
    }
}
