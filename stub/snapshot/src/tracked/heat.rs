//! How each chunk of a watched region is treated, by what was written of it version after version.
//!
//! A first write to a watched page costs its writer more than copying the page costs the producer.
//! So what is written in every version is cheaper to copy unasked than to watch:
//!
//! | chunk | unprotected | counts as written |
//! |---|---|---|
//! | watched | nothing | what the kernel noted |
//! | steady | pages written in each of the last versions, but for witnesses | these, and what the kernel noted |
//! | hot, since more than a third of it was written, in one version of three or oftener | anything | all of it |
//!
//! A witness is one page in 16 of a steady set that stays watched: once it is not written any more,
//! or many other pages are, the set has moved, and the chunk is watched again. A steady or hot
//! chunk is so in any case now and then, and less often each time that it was in vain.
//!
//! Pure: what to ask of the kernel, and what to do with its answer; `tracked.rs` asks.

use super::pages::PageSet;

/// One part in so many of a chunk's watched pages, above which it turns hot: where 1.2 us per fault
/// and 0.04 us to find a page pass 0.42 us to copy one (64 MiB, measured), rounded to lean towards
/// watching.
const HOT_PART: usize = 3;
/// A version that wrote so much of a chunk counts so much towards turning it hot, any other one
/// less. Written so in each fourth version, its faults (512 of 1.2 us) take less than three copies
/// in vain (of 245 us each) would; in each third they do not. A set of pages that moves on, and
/// comes again later, is not copied meanwhile.
const DENSE_WEIGHT: u8 = 2;
/// Where it turns hot: at the second such version running, or of three.
const DENSE_HOT: u8 = 3;
/// Versions after which a chunk that turned hot or steady is watched again, which costs a fault
/// for each page written and is done half as often with each time that it was in vain.
const PROBE_FIRST: u8 = 16;
/// The longest such time of hot chunks: what cooled down meanwhile is copied whole for so many
/// versions, and probing costs what stays hot a hundredth at most.
const HOT_LAST: u8 = 128;
/// The same of steady ones, where single pages may cool down that no witness stands for.
const STEADY_LAST: u8 = 32;
/// Versions in which the same pages were written, before they are taken for steady.
const STREAK: u8 = 3;
/// Fewer pages than these are not worth a witness and a question of their own.
const STEADY_MIN: usize = 8;
/// One page in so many of a steady set is a witness.
const WITNESS_PART: usize = 16;
/// The set has moved when this part of what was written lies outside of it.
const MOVED_PART: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heat {
    Watched,
    Steady,
    Hot,
}

/// What to ask the kernel about a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Query {
    /// What was written, protecting it again in the same step.
    Take,
    /// What was written; then `judge_seen` says what of it to protect. A page that will turn out
    /// to be hot or steady would else be protected in vain, and fault once more.
    Look,
    /// Nothing: all of it counts as written.
    Believe,
    /// Nothing, as before; but protect all of it.
    Watch,
}

/// What to do with a chunk after a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is hot: all of it counts as written, and nothing is protected.
    AllWritten,
    /// Protect these.
    Protect(PageSet),
    /// Take all of it.
    Take,
}

/// One chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    heat: Heat,
    /// Versions until it is watched again.
    left: u8,
    /// Versions that it is, or would be, hot for when it turns so now.
    of: u8,
    /// How often it was written by more than one part in `HOT_PART`, of late.
    dense: u8,
    /// Consecutive versions that wrote `same`.
    streak: u8,
    same: PageSet,
    /// The part of a steady set that is not protected.
    free: PageSet,
}

/// Watched, and never anything else.
pub(super) const COLD: Chunk = Chunk {
    heat: Heat::Watched,
    left: 0,
    of: PROBE_FIRST,
    dense: 0,
    streak: 0,
    same: PageSet::EMPTY,
    free: PageSet::EMPTY,
};

impl Chunk {
    /// What to ask for the version in the making.
    pub(super) fn query(&self) -> Query {
        match self.heat {
            Heat::Watched if self.may_turn() => Query::Look,
            Heat::Watched => Query::Take,
            Heat::Steady => Query::Look,
            Heat::Hot if self.left > 1 => Query::Believe,
            Heat::Hot => Query::Watch,
        }
    }

    /// The next version may make it hot or steady.
    fn may_turn(&self) -> bool {
        self.of > PROBE_FIRST || self.dense > 0 || self.streak + 1 >= STREAK
    }

    /// Pages that may be written without the kernel noting it; all of a hot chunk.
    pub(super) fn unwatched(&self) -> PageSet {
        match self.heat {
            Heat::Watched => PageSet::EMPTY,
            Heat::Steady => self.free,
            Heat::Hot => PageSet::ALL,
        }
    }

    /// After `Believe`.
    pub(super) fn believed(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// After `Watch`: the next version tells whether it was in vain.
    pub(super) fn watched(&mut self) {
        let of = self.of.saturating_mul(2).min(HOT_LAST);
        *self = Self { heat: Heat::Watched, of, free: PageSet::EMPTY, ..*self };
    }

    /// All of it was protected between two versions: the next one will see a part of what was
    /// written, which must not count as the whole.
    pub(super) fn watched_between(&mut self) {
        *self = Self { heat: Heat::Watched, streak: 0, free: PageSet::EMPTY, ..*self };
    }

    /// After `Take`: these pages were written, of `pages` watched ones.
    pub(super) fn judge_taken(&mut self, written: PageSet, pages: usize) {
        // Never hot by this alone: a chunk that the next dense version makes hot is looked at.
        self.weigh(written, pages);
        self.cool(written);
    }

    /// After `Look`: these pages were written, of `pages` watched ones, or are unprotected.
    pub(super) fn judge_seen(&mut self, written: PageSet, pages: usize) -> Verdict {
        if self.heat == Heat::Steady {
            return self.judge_steady(written, pages);
        }
        if self.weigh(written, pages) {
            self.turn(Heat::Hot, self.of);
            return Verdict::AllWritten;
        }
        let of = self.of;
        self.cool(written);
        if written.is_empty() {
            return Verdict::Protect(written);
        }
        if self.streak < STREAK {
            return Verdict::Take;
        }
        self.of = of;
        self.free = self.same.without_each(WITNESS_PART);
        self.turn(Heat::Steady, of.min(STEADY_LAST));
        Verdict::Protect(written.minus(self.free))
    }

    fn judge_steady(&mut self, written: PageSet, pages: usize) -> Verdict {
        let others = written.minus(self.same).len();
        let is_same = self.same.minus(written).is_empty();
        if !is_same || others > self.same.len() / MOVED_PART {
            *self = COLD;
            self.weigh(written, pages);
            return Verdict::Take;
        }
        if self.left <= 1 {
            self.watched();
            return Verdict::Take;
        }
        self.left -= 1;
        Verdict::Protect(written.minus(self.free))
    }

    /// Counts how often much of it is written; true when it is now worth copying it unasked.
    fn weigh(&mut self, written: PageSet, pages: usize) -> bool {
        let is_dense = written.len() > pages / HOT_PART;
        self.dense = match is_dense {
            true => (self.dense + DENSE_WEIGHT).min(DENSE_HOT),
            false => self.dense.saturating_sub(1),
        };
        is_dense && self.dense == DENSE_HOT
    }

    fn turn(&mut self, heat: Heat, left: u8) {
        (self.heat, self.left) = (heat, left);
    }

    /// Watched on; counts for how long the same pages have been written.
    fn cool(&mut self, written: PageSet) {
        let kept = self.same.and(written);
        let goes_on = self.streak > 0 && kept.len() >= written.len() - written.len() / MOVED_PART;
        (self.same, self.streak) = match goes_on {
            true => (kept, (self.streak + 1).min(STREAK)),
            false => (written, 1),
        };
        if self.same.len() < STEADY_MIN {
            self.streak = 0;
        }
        (self.heat, self.of) = (Heat::Watched, PROBE_FIRST);
    }
}

#[cfg(test)]
#[path = "heat_tests.rs"]
mod tests;
