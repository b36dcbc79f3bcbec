//! Operations that wait for their own end: their tags, and what completes meanwhile.

use std::collections::VecDeque;

use heliostat_abi::file::delegated::Completion;

/// Tags from here on are those operations' own.
pub const TAG_MAX: u64 = (1 << 63) - 1;

/// Completions that such an operation found while it waited for its own, for the caller's next `wait`.
#[derive(Default)]
pub(super) struct KeptCompletions {
    completions: VecDeque<Completion>,
    tags: u64,
}

impl KeptCompletions {
    /// A tag for the next such operation; no caller may use it.
    pub(super) fn next_tag(&mut self) -> u64 {
        self.tags = self.tags.wrapping_add(1);
        self.tags | !TAG_MAX
    }

    /// Keeps a completion, if it is the caller's.
    pub(super) fn keep(&mut self, found: Completion) {
        if is_callers(&found) {
            self.completions.push_back(found);
        }
    }

    /// Takes the oldest.
    pub(super) fn take(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

/// Whether a completion is of an operation that the caller has submitted. Others that nobody waits
/// for have been left behind by an operation that gave up.
pub(super) fn is_callers(found: &Completion) -> bool {
    found.tag <= TAG_MAX
}
