//! What one may do with a name, and who asks.

pub use heliostat_abi::right::Right;

/// Who asks, as the kernel says (SO_PEERCRED, SO_PEERGROUPS), never as a message claims.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subject {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Subject {
    /// A subject with one group only.
    pub fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Vec::new() }
    }

    /// True when the subject is in the group, by either way.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
