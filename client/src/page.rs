//! The node page: what the control plane tells everybody.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heliostat_abi::limits::REGIONS_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::{self, State};
use heliostat_abi::VERSION;
use heliostat_base::alive;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};

/// What the control plane tells everybody, mapped read-only.
pub struct NodePage(SharedMapping);

impl NodePage {
    /// Maps what the control plane handed out; `None` when that is no node page of this version.
    pub fn map(fd: &OwnedFd) -> Option<Self> {
        let page = SharedMapping::from_fd(fd.as_raw_fd(), node::BYTES, Access::Read).ok()?;
        let (mark, version) = (page.atomic_u32(0).load(Relaxed), page.atomic_u32(4).load(Relaxed));
        (mark == node::MAGIC && version == u32::from(VERSION)).then_some(Self(page))
    }

    /// Changes whenever an address starts or stops being listened on.
    pub fn registry(&self) -> u32 {
        self.0.atomic_u32(node::REGISTRY).load(Acquire)
    }

    /// Changes whenever the machine's cores are parted otherwise.
    pub fn partition(&self) -> u32 {
        self.0.atomic_u32(node::PARTITION).load(Acquire)
    }

    /// Changes whenever the listening address gets a new channel.
    pub fn port(&self, port: ObjectId) -> u32 {
        self.0.atomic_u32(node::port_word(port.index)).load(Acquire)
    }

    /// Changes whenever a consumer of the snapshot region joins or leaves.
    pub fn region(&self, region: ObjectId) -> u32 {
        self.0.atomic_u32(node::region_word(region.index)).load(Acquire)
    }

    /// The words of all regions.
    pub fn region_words(&self) -> Vec<u32> {
        let word = |index| self.region(ObjectId { index, generation: 0 });
        (0..REGIONS_MAX as u32).map(word).collect()
    }

    /// State of a channel's grant.
    #[inline]
    pub fn channel(&self, channel: ObjectId) -> State {
        let word = self.0.atomic_u32(node::channel_word(channel.index)).load(Relaxed);
        node::state(word, channel.generation)
    }

    /// Whether the control plane lives.
    pub fn is_kept(&self) -> bool {
        alive::is_kept(self.0.atomic_u32(node::LIFE).load(Acquire))
    }

    /// The word that keeps this value while the control plane lives; `None` when it does not.
    pub fn life(&self) -> Option<(&AtomicU32, u32)> {
        let word = self.0.atomic_u32(node::LIFE);
        let value = word.load(Acquire);
        alive::is_kept(value).then_some((word, value))
    }

    /// The word that keeps this value while a lease is active.
    pub fn lease(&self, lease: ObjectId) -> (&AtomicU32, u32) {
        let word = self.0.atomic_u32(node::lease_word(lease.index));
        (word, node::word(lease.generation, State::Active))
    }

    /// State of another session.
    pub fn session(&self, session: ObjectId) -> State {
        let word = self.0.atomic_u32(node::session_word(session.index)).load(Acquire);
        node::state(word, session.generation)
    }
}
