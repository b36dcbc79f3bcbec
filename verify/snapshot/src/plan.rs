//! What is written in which round, and what each page must hold after it.
//!
//! Producer and consumers compute it from the same seed, so that a consumer knows of every page
//! which stamp it must carry in a version of whatever round, without asking anybody.
//!
//! ```text
//! page 0         round, number of the version, both mixed: written every round
//! page p         sectors 0 and 7 stamped; of every fourth page all eight sectors
//! dirty set      a window that moves on and grows until it wraps, and as many pages scattered
//! ```

/// Bytes of a page as the plan counts them, from the region's first byte.
pub const PAGE: usize = 4096;
/// Bytes of a sector, the grain of stamps.
pub const SECTOR: usize = 512;

/// What happens to a page in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// New stamps; the number picks a way of writing.
    Write(u32),
    /// Its content is dropped, so it reads as zeros.
    Drop,
    /// Unmapped and mapped anew, so it reads as zeros.
    Remap,
    /// Moved away and back: it keeps its content.
    Move,
    /// Its content may be dropped by the kernel at any time.
    Free,
    /// Made read-only and writable again: it keeps its content.
    Protect,
}

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Zeros.
    Zero,
    /// Stamps of this round.
    Round(u32),
    /// Stamps of this round, or zeros.
    RoundOrZero(u32),
}

/// The dirty sets of all rounds.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// From which all of it follows.
    pub seed: u64,
    /// Pages of the region, the last of which may be partial and is left out.
    pub pages: usize,
    /// Pages that the smallest round writes.
    pub least: usize,
    /// Memory of this kind can be dropped, moved and protected page by page.
    pub surgery: bool,
}

/// A number that looks random, from a number.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Plan {
    /// What happens in `round`, which counts from 1; in this order.
    pub fn acts(&self, round: u32) -> impl Iterator<Item = (usize, Act)> + '_ {
        let start = mix(self.seed ^ u64::from(round));
        let usable = self.pages as u64 - 1;
        let grown = self.least << (round / 8 % 6);
        // Everything at once, now and then: chunks turn hot and cold again.
        let count = if round % 37 == 0 { usable as usize } else { grown.min(usable as usize) };
        let window = u64::from(round) * self.least as u64 / 2;
        (0..count).map(move |step| {
            let luck = mix(start ^ step as u64);
            let is_scattered = step % 2 == 1 && count < usable as usize;
            let page = if is_scattered { luck % usable } else { (window + step as u64) % usable };
            (1 + page as usize, self.act(round, (luck >> 32) as u32))
        })
    }

    fn act(&self, round: u32, luck: u32) -> Act {
        // Memory that was mapped anew counts as written with all around it: not in every round.
        let may_map = self.surgery && round % 16 == 5;
        match luck % 128 {
            0 if self.surgery => Act::Drop,
            1 if self.surgery => Act::Free,
            2 if self.surgery => Act::Protect,
            3..8 if may_map => Act::Remap,
            8..12 if may_map => Act::Move,
            _ => Act::Write(luck >> 8),
        }
    }

    /// The stamp of a sector.
    pub fn stamp(&self, round: u32, page: usize, sector: usize) -> u64 {
        // Never zero, so that a stamp is never taken for a dropped page.
        mix(self.seed ^ u64::from(round) << 40 ^ (page * 8 + sector) as u64) | 1
    }

    /// The sectors of `page` that carry stamps.
    pub fn sectors(page: usize) -> impl Iterator<Item = usize> {
        (0..PAGE / SECTOR).filter(move |sector| page % 4 == 0 || sector % 7 == 0)
    }
}

/// What every page holds after the rounds so far.
pub struct Model {
    /// By which it goes.
    pub plan: Plan,
    round: u32,
    marks: Vec<Mark>,
}

impl Model {
    /// Before the first round.
    pub fn new(plan: Plan) -> Self {
        Self { plan, round: 0, marks: vec![Mark::Zero; plan.pages] }
    }

    /// Goes on to `round`; false when that lies behind.
    pub fn advance(&mut self, round: u32) -> bool {
        let first = self.round + 1;
        for round in first..=round {
            let plan = self.plan;
            for (page, act) in plan.acts(round) {
                self.apply(round, page, act);
            }
        }
        let is_forward = round >= self.round;
        self.round = self.round.max(round);
        is_forward
    }

    fn apply(&mut self, round: u32, page: usize, act: Act) {
        let mark = &mut self.marks[page];
        *mark = match (act, *mark) {
            (Act::Write(_), _) => Mark::Round(round),
            (Act::Drop | Act::Remap, _) => Mark::Zero,
            (Act::Free, Mark::Round(round)) => Mark::RoundOrZero(round),
            (Act::Move | Act::Protect | Act::Free, known) => known,
        };
    }

    /// Checks a page's stamps, which `word` reads by offset in the page.
    pub fn check(&self, page: usize, word: impl Fn(usize) -> u64) -> Result<(), String> {
        let stamps = |round| {
            Plan::sectors(page)
                .all(|sector| word(sector * SECTOR) == self.plan.stamp(round, page, sector))
        };
        let zeros = || Plan::sectors(page).all(|sector| word(sector * SECTOR) == 0);
        let mark = self.marks[page];
        let is_right = match mark {
            Mark::Zero => zeros(),
            Mark::Round(round) => stamps(round),
            Mark::RoundOrZero(round) => stamps(round) || zeros(),
        };
        if is_right {
            return Ok(());
        }
        let found = (1..=self.round).rev().find(|round| stamps(*round));
        Err(format!(
            "page {page} must hold {mark:?} after round {}, and holds {}",
            self.round,
            match found {
                Some(round) => format!("round {round}"),
                None if zeros() => "zeros".to_owned(),
                None => "stamps of no one round: torn".to_owned(),
            }
        ))
    }
}
