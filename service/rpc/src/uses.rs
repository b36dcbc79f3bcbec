//! How often users of other nodes have found each function.
//!
//! Several programs of a user of a node are one session here, so what they find is counted, and the
//! last one to leave a function leaves it for the session.

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;

/// All of it, by session and function.
#[derive(Clone, Debug, Default)]
pub struct Uses(HashMap<(ObjectId, ObjectId), u32>);

impl Uses {
    /// A session has found a function once more.
    pub fn add(&mut self, session: ObjectId, function: ObjectId) {
        let uses = self.0.entry((session, function)).or_default();
        *uses = uses.saturating_add(1);
    }

    /// A session uses a function once less; whether that was the last time.
    pub fn end(&mut self, session: ObjectId, function: ObjectId) -> bool {
        let Some(uses) = self.0.get_mut(&(session, function)) else { return false };
        *uses -= 1;
        let is_last = *uses == 0;
        if is_last {
            self.0.remove(&(session, function));
        }
        is_last
    }

    /// A function is gone: nobody uses it any more.
    pub fn forget(&mut self, function: ObjectId) {
        self.0.retain(|(_, other), _| *other != function);
    }

    /// Sessions are no more.
    pub fn end_sessions(&mut self, ended: &[ObjectId]) {
        self.0.retain(|(session, _), _| !ended.contains(session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_left_with_its_last_use() {
        let id = |index| ObjectId { index, generation: 1 };
        let (mut uses, session, function) = (Uses::default(), id(1), id(3));
        [(), ()].iter().for_each(|()| uses.add(session, function));
        assert!(!uses.end(session, function) && uses.end(session, function));
        assert!(!uses.end(session, function), "one that was not counted");
        [session, id(2)].iter().for_each(|session| uses.add(*session, function));
        uses.end_sessions(&[session]);
        assert!(!uses.end(session, function) && uses.end(id(2), function));
        uses.add(session, function);
        uses.forget(function);
        assert!(!uses.end(session, function));
    }
}
