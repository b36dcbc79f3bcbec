//! A replica's bytes, and the entries that are not known to be on all replicas.

use std::collections::VecDeque;

use crate::append::{Change, Entry};
use crate::recent::Recent;

/// Entries after `base`, of which those up to `applied` are in the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    entry_bytes: usize,
    base: u64,
    applied: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) recent: Recent,
}

impl Log {
    /// Zeros, as after this entry.
    pub(crate) fn zeros(bytes: u64, base: u64, recent: usize) -> Log {
        Log {
            entries: VecDeque::new(),
            entry_bytes: 0,
            base,
            applied: base,
            data: vec![0; bytes as usize],
            recent: Recent::after(base, recent),
        }
    }

    /// The last entry.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// The last one that is not kept.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// What the entries take.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// An entry, if it is kept.
    pub(crate) fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(number.checked_sub(self.base + 1)?).ok()?)
    }

    /// One more.
    pub(crate) fn push(&mut self, entry: Entry) -> u64 {
        self.entry_bytes += entry.bytes();
        self.entries.push_back(entry);
        self.end()
    }

    /// Takes out what comes from an entry on. Those that are in the bytes stay.
    pub(crate) fn cut_from(&mut self, number: u64) {
        while self.end() >= number && self.end() > self.applied {
            let Some(entry) = self.entries.pop_back() else { return };
            self.entry_bytes -= entry.bytes();
        }
    }

    /// Puts entries up to this one into the bytes.
    pub(crate) fn apply_to(&mut self, number: u64) {
        while self.applied < number.min(self.end()) {
            let next = self.applied + 1;
            let Some(entry) = self.get(next) else { return };
            let (change, id, word) = (entry.change.clone(), entry.id, entry.word);
            apply(&mut self.data, &change);
            if let Some(id) = id {
                self.recent.keep(next, id, word);
            }
            self.applied = next;
        }
    }

    /// Keeps no entry up to this one any more, of those that are in the bytes.
    pub(crate) fn forget_to(&mut self, number: u64) {
        while self.base < number.min(self.applied) {
            let Some(entry) = self.entries.pop_front() else { return };
            self.entry_bytes -= entry.bytes();
            self.base += 1;
        }
    }
}

/// Entries were checked before: what lies beyond the bytes is left out.
fn apply(data: &mut [u8], change: &Change) {
    let place = |offset: u64, bytes: u64| {
        let end = offset.checked_add(bytes)?;
        Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    };
    match change {
        Change::Nothing => {}
        Change::Store { offset, bytes } => {
            let found = place(*offset, bytes.len() as u64).and_then(|it| data.get_mut(it));
            if let Some(found) = found {
                found.copy_from_slice(bytes);
            }
        }
        Change::Set { offset, bytes, value } => {
            if let Some(found) = place(*offset, *bytes).and_then(|it| data.get_mut(it)) {
                found.fill(*value);
            }
        }
    }
}
