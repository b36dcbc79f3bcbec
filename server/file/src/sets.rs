//! Which file is read after which: what a session comes to next, and who comes behind it.
//!
//! Programs that work on one set of files often take them in one order: one after the other, several
//! side by side, or one again and again. Each file that a session begins to read is noted behind the
//! one that it began before, for all sessions of one holder together.
//!
//! ```text
//! noted:      A --2--> B --2--> C --1--> D        how often each step was made
//! at C:       D is next: its head is read ahead, if that was right lately or D came twice
//! at D:       who reads in B, and came there from A, comes to D too: it follows, over files
//! ```
//! Holders learn from themselves only: what one program does costs no other user anything. What is
//! wrong here costs blocks that nobody asks for, and makes a step count less until it is forgotten.

use std::collections::HashMap;

use heliostat_service_grant::Holder;

/// Holders whose sets are known.
const HOLDERS_MAX: usize = 64;
/// Files of one of them.
const FILES_MAX: usize = 1024;
/// Blocks of a file that are read ahead of a session that comes to it: 1 MiB. From there on it is read
/// ahead as any that is read in order.
pub const HEAD_BLOCKS: u64 = 16;
/// Files that are looked at behind the one that a session begins, or before it.
const STEPS_MAX: usize = 8;
/// Times that a step was made which count.
const SEEN_MAX: u8 = 3;
/// A step that was made so often is believed whatever others were worth.
const SEEN_SURE: u8 = 2;
/// How good the steps of a holder were: each right one adds one, each wrong one takes two.
const SCORE_MAX: u8 = 16;
const SCORE_FIRST: u8 = 8;
/// From which on a step that was made once is believed.
const SCORE_SURE: u8 = 4;

/// A file as it is noted.
struct Known<S> {
    source: S,
    bytes: u64,
    /// What came after it, and how often.
    next: Option<(u64, u8)>,
    /// What came before it the last time.
    before: Option<u64>,
    /// Blocks of its head that were read ahead, and nobody has come to.
    ahead: u16,
}

/// The files of one holder.
struct Order<S> {
    files: HashMap<u64, Known<S>>,
    score: u8,
    used_ns: u64,
}

/// The sets of all holders; `S` is what a file is read by.
pub struct Sets<S> {
    orders: HashMap<Holder, Order<S>>,
}

impl<S> Default for Sets<S> {
    fn default() -> Self {
        Sets { orders: HashMap::new() }
    }
}

impl<S: Clone> Sets<S> {
    /// Notes that a session begins a file after another one, or as its first; answers which blocks of
    /// its head were read ahead, a bit for each, once.
    pub fn begin(
        &mut self,
        holder: Holder,
        (before, file): (Option<u64>, u64),
        (source, bytes): (S, u64),
        now_ns: u64,
    ) -> u16 {
        let order = self.order(holder, now_ns);
        if !order.files.contains_key(&file) && order.files.len() >= FILES_MAX {
            order.files.clear();
        }
        if let Some(before) = before {
            order.step(before, file);
        }
        let (next, ahead) = (None, 0);
        let known = Known { source: source.clone(), bytes, next, before, ahead };
        let known = order.files.entry(file).or_insert(known);
        (known.source, known.bytes) = (source, bytes);
        known.before = before.or(known.before);
        std::mem::take(&mut known.ahead)
    }

    /// What a session that begins this file is likely to come to next, in order: files, what they are
    /// read by, and their lengths.
    pub fn next(&self, holder: Holder, file: u64) -> Vec<(u64, S, u64)> {
        let Some(order) = self.orders.get(&holder) else { return Vec::new() };
        let mut found: Vec<(u64, S, u64)> = Vec::new();
        let mut at = file;
        while found.len() < STEPS_MAX {
            let Some(next) = order.likely(at) else { break };
            let is_round = next == file || found.iter().any(|(known, ..)| *known == next);
            let Some(known) = order.files.get(&next).filter(|_| !is_round) else { break };
            found.push((next, known.source.clone(), known.bytes));
            at = next;
        }
        found
    }

    /// A block of a file's head was read ahead.
    pub fn mark(&mut self, holder: Holder, file: u64, block: u64) {
        let order = self.orders.get_mut(&holder);
        if let Some(known) = order.and_then(|order| order.files.get_mut(&file)) {
            known.ahead |= 1_u16.checked_shl(block as u32).unwrap_or(0);
        }
    }

    /// The files that came before this one, the last first, with the bytes from the end of each to the
    /// beginning of this one: those into which the step was made more than once.
    pub fn before(&self, holder: Holder, file: u64) -> Vec<(u64, u64)> {
        let Some(order) = self.orders.get(&holder) else { return Vec::new() };
        let (mut found, mut at, mut between) = (Vec::new(), file, 0u64);
        for _ in 0..STEPS_MAX {
            let Some(before) = order.files.get(&at).and_then(|known| known.before) else { break };
            let Some(known) = order.files.get(&before).filter(|_| before != file) else { break };
            if order.is_common(known.before, before) {
                found.push((before, between));
            }
            between = between.saturating_add(known.bytes);
            at = before;
        }
        found
    }

    fn order(&mut self, holder: Holder, now_ns: u64) -> &mut Order<S> {
        if !self.orders.contains_key(&holder) && self.orders.len() >= HOLDERS_MAX {
            let oldest = self.orders.iter().min_by_key(|(_, order)| order.used_ns);
            let oldest = oldest.map(|(holder, _)| *holder);
            oldest.map(|holder| self.orders.remove(&holder));
        }
        let fresh = || Order { files: HashMap::new(), score: SCORE_FIRST, used_ns: now_ns };
        let order = self.orders.entry(holder).or_insert_with(fresh);
        order.used_ns = now_ns;
        order
    }
}

impl<S> Order<S> {
    /// Notes a step from one file to another.
    fn step(&mut self, before: u64, file: u64) {
        let Some(known) = self.files.get_mut(&before) else { return };
        match &mut known.next {
            Some((next, seen)) if *next == file => {
                *seen = (*seen + 1).min(SEEN_MAX);
                self.score = (self.score + 1).min(SCORE_MAX);
            }
            Some((_, seen)) if *seen > 1 => {
                *seen -= 1;
                self.score = self.score.saturating_sub(2);
            }
            Some(next) => {
                *next = (file, 1);
                self.score = self.score.saturating_sub(2);
            }
            None => known.next = Some((file, 1)),
        }
    }

    fn likely(&self, file: u64) -> Option<u64> {
        let (next, seen) = self.files.get(&file)?.next?;
        (seen >= SEEN_SURE || self.score >= SCORE_SURE).then_some(next)
    }

    /// Whether the step was made more than once.
    fn is_common(&self, before: Option<u64>, file: u64) -> bool {
        let known = before.and_then(|before| self.files.get(&before));
        let next = known.and_then(|known| known.next);
        next.is_some_and(|(next, seen)| next == file && seen >= SEEN_SURE)
    }
}

#[cfg(test)]
#[path = "sets_tests.rs"]
mod tests;
