//! What this node gives to replicas, and to its programs that use some.

use crate::engine::Engine;

impl Engine {
    /// The limit that leaves no room for another replica, if one does.
    pub(crate) fn full(&self, owner: u32, bytes: u64) -> Option<u64> {
        let limits = self.starting.limits;
        let all = || self.regions.values().map(|it| it.replica.placement());
        let sum: u64 = all().map(|it| it.bytes).sum();
        let its: u64 = all().filter(|it| it.owner == owner).map(|it| it.bytes).sum();
        // An allocation that fails would end the process.
        if Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX)).is_err()
        {
            return Some(bytes);
        }
        if self.regions.len() >= limits.replicas {
            return Some(limits.replicas as u64);
        }
        if sum.saturating_add(bytes) > limits.bytes {
            return Some(limits.bytes);
        }
        (its.saturating_add(bytes) > limits.bytes_per_user).then_some(limits.bytes_per_user)
    }

    /// Whether one more region may be found, once those that are gone are forgotten.
    pub(crate) fn has_room(&mut self) -> bool {
        let most = self.starting.limits.found;
        if self.clients.len() >= most {
            self.clients.retain(|_, it| !it.client.is_gone() || it.client.waiting() > 0);
        }
        self.clients.len() < most
    }
}
