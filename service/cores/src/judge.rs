//! Which partition is kept, from what each was measured at.
//!
//! None wins ties: a partition is kept when its median is better than that without by more than
//! the rounds without one differ among themselves, and by a fiftieth at least.

/// A gain below this is a tie.
pub const GAIN_LEAST: f64 = 0.02;
/// What a partition that is kept never falls below, of none.
pub const RATIO_LEAST: f64 = 0.95;

/// How one partition fared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// The median of its rounds.
    pub median: f64,
    /// That of none, by which it is divided.
    pub ratio: f64,
    /// The worst and the best round, of none's median.
    pub range: (f64, f64),
}

/// What the figures say.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// None.
    pub none: Judged,
    /// Each partition, in the order in which they were given.
    pub each: Vec<Judged>,
    /// By how much a partition has to be better than none.
    pub margin: f64,
    /// Which is kept; `None` is none.
    pub best: Option<usize>,
}

/// Judges rounds in which higher is better. A partition without rounds fares as 0.
pub fn judge(none: &[f64], each: &[Vec<f64>]) -> Verdict {
    let of_none = median(none);
    let judged = |rounds: &[f64]| {
        let part = |value: f64| if of_none > 0.0 { value / of_none } else { 0.0 };
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rounds.iter().copied().fold(0.0, f64::max);
        let median = median(rounds);
        Judged { median, ratio: part(median), range: (part(least.min(most)), part(most)) }
    };
    let without = judged(none);
    let margin = GAIN_LEAST.max((without.range.1 - without.range.0) / 2.0);
    let each: Vec<Judged> = each.iter().map(|rounds| judged(rounds)).collect();
    let better = each.iter().enumerate().filter(|(_, one)| {
        one.ratio > 1.0 + margin && one.range.0 >= RATIO_LEAST && one.ratio.is_finite()
    });
    let best = better.max_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio));
    Verdict { none: without, best: best.map(|(place, _)| place), each, margin }
}

/// The median; the mean of the two in the middle where there are two.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_is_clearly_better_than_none_is_kept() {
        let verdict =
            judge(&[100.0, 101.0, 99.0], &[vec![110.0; 3], vec![120.0; 3], vec![90.0; 3]]);
        assert_eq!(verdict.best, Some(1));
        assert_eq!(verdict.each[1].ratio, 1.2);
    }

    #[test]
    fn none_wins_ties_and_where_everything_is_worse() {
        assert_eq!(judge(&[100.0; 3], &[vec![101.9; 3]]).best, None);
        assert_eq!(judge(&[100.0; 3], &[vec![60.0; 3], vec![99.0; 3]]).best, None);
        assert_eq!(judge(&[100.0; 3], &[]).best, None);
    }

    #[test]
    fn a_gain_within_what_rounds_differ_by_is_a_tie() {
        assert_eq!(judge(&[90.0, 100.0, 110.0], &[vec![108.0; 3]]).best, None);
        assert_eq!(judge(&[90.0, 100.0, 110.0], &[vec![112.0; 3]]).best, Some(0));
    }

    #[test]
    fn a_partition_with_a_round_far_below_none_is_not_kept() {
        assert_eq!(judge(&[100.0; 3], &[vec![130.0, 130.0, 94.0]]).best, None);
    }

    #[test]
    fn figures_that_are_none_decide_nothing() {
        assert_eq!(judge(&[0.0; 3], &[vec![1.0; 3]]).best, None);
        assert_eq!(judge(&[1.0; 3], &[vec![f64::INFINITY; 3], vec![f64::NAN; 3]]).best, None);
        assert_eq!(judge(&[1.0; 3], &[vec![]]).best, None);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
