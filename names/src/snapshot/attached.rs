//! Regions that were looked at, as any consumer has them: attached to, and kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use heliostat_abi::snapshot::region::OWN_USER;
use heliostat_stub_snapshot::{attach_of, AttachError, Attachment, Version};

use super::Key;
use crate::NameFault;

/// Regions that stay attached to at once. Each is some descriptors and a mapping.
const KEPT_MAX: usize = 64;

/// Regions by user and name.
pub(super) struct AttachedRegions {
    own: u32,
    kept: Mutex<HashMap<Key, Kept>>,
}

struct Kept {
    region: AttachedRegion,
    used: Instant,
}

/// A region that is attached to. Clones are the same.
#[derive(Clone)]
pub(super) struct AttachedRegion {
    pub(super) user: u32,
    pub(super) name: Arc<str>,
    pub(super) attachment: Attachment,
    /// By number, what is pinned: all that read a version share one pin.
    pinned: Arc<Mutex<HashMap<u64, Weak<Version>>>>,
}

impl AttachedRegions {
    /// None yet, for user `own`.
    pub(super) fn new(own: u32) -> Self {
        Self { own, kept: Mutex::default() }
    }

    /// Those that are attached to, with their generations. A region that its producer has ended in good
    /// order is not kept; of one whose producer was killed the versions stay.
    pub(super) fn kept(&self) -> Vec<(Key, u64)> {
        let mut kept = self.lock();
        kept.retain(|_, kept| !kept.region.attachment.is_closed());
        kept.iter().map(|(key, kept)| (key.clone(), kept.region.attachment.generation())).collect()
    }

    /// Whether the producer of one of them has died.
    pub(super) fn has_deserted(&self) -> bool {
        self.lock().values().any(|kept| kept.region.attachment.is_deserted())
    }

    /// The region of a name and generation. One whose producer has died stays as it was until another
    /// has its name.
    pub(super) fn region(&self, key: Key, generation: u64) -> Result<AttachedRegion, NameFault> {
        if let Some(kept) = self.lock().get_mut(&key) {
            if kept.region.attachment.generation() == generation {
                kept.used = Instant::now();
                return Ok(kept.region.clone());
            }
        }
        let (user, name) = &key;
        let owner = if *user == self.own { OWN_USER } else { *user };
        let region = AttachedRegion {
            user: *user,
            name: name.as_str().into(),
            attachment: attach_of(name, owner)?,
            pinned: Arc::default(),
        };
        self.keep(key, region.clone());
        Ok(region)
    }

    /// Keeps one, in place of the one that was not used for the longest time. What is open of that
    /// goes on.
    fn keep(&self, key: Key, region: AttachedRegion) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX && !kept.contains_key(&key) {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        kept.insert(key, Kept { region, used: Instant::now() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttachedRegion {
    /// A version by its number.
    pub(super) fn numbered(&self, number: u64) -> Result<Arc<Version>, AttachError> {
        if let Some(version) = self.pins().get(&number).and_then(Weak::upgrade) {
            return Ok(version);
        }
        Ok(self.share(self.attachment.numbered(number)?))
    }

    /// The newest version.
    pub(super) fn newest(&self) -> Result<Arc<Version>, AttachError> {
        Ok(self.share(self.attachment.latest()?))
    }

    /// The one pin of this version.
    fn share(&self, version: Version) -> Arc<Version> {
        let mut pins = self.pins();
        if let Some(known) = pins.get(&version.number()).and_then(Weak::upgrade) {
            return known;
        }
        pins.retain(|_, pinned| pinned.strong_count() > 0);
        let version = Arc::new(version);
        pins.insert(version.number(), Arc::downgrade(&version));
        version
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<u64, Weak<Version>>> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
