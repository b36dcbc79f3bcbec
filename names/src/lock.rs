//! `/lock`: locks, semaphores and barriers, each as a text of its state.

use heliostat_stub_lock::{Kind, ListedLock, Locks};

use crate::listed::Lister;
use crate::renewed::Renewed;
use crate::text::{lines, text};
use crate::{Found, NameFault};

#[derive(Default)]
pub(crate) struct LockNames(Renewed<Locks>);

impl Lister for LockNames {
    type Thing = ListedLock;

    fn ask(
        &self,
        user: u32,
        beginning: &str,
    ) -> Result<Vec<((u32, String), ListedLock)>, NameFault> {
        let locks = self.0.current(Locks::open)?.list_of(user, beginning)?;
        let named = |lock: ListedLock| ((lock.user, lock.name.as_str().to_owned()), lock);
        Ok(locks.into_iter().map(named).collect())
    }

    fn found(&self, _: u32, lock: &ListedLock) -> Result<Found, NameFault> {
        let mut fields = vec![("kind", lock.shape.kind.word().to_owned())];
        if matches!(lock.shape.kind, Kind::Semaphore | Kind::Barrier) {
            fields.push(("count", lock.shape.count.to_string()));
        }
        fields.extend([
            ("uid", lock.user.to_string()),
            ("opened", lock.opened.to_string()),
            ("held", lock.held.to_string()),
            ("waiting", lock.waiting.to_string()),
            ("age_s", lock.age_s.to_string()),
            ("last", lock.last.to_string()),
            ("state", state(lock).to_owned()),
        ]);
        Ok(text(Some(lock.user), lines(&fields)))
    }
}

fn state(lock: &ListedLock) -> &'static str {
    match (lock.is_broken, lock.has_owner_died) {
        (true, _) => "broken",
        (_, true) => "a holder died",
        _ => "whole",
    }
}
