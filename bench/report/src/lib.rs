//! What the measurements' tables have in common: statistics of repetitions, and their JSON file.
//!
//! Which columns a table has, and what is promised of a row, is each measurement's own.

use std::path::Path;

/// The middle of the values; NaN for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The least and the greatest of the values.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    (least, values.iter().copied().fold(f64::MIN, f64::max))
}

/// Distance between the extremes, as a fraction of the median.
pub fn spread(values: &[f64]) -> f64 {
    let (least, most) = extremes(values);
    (most - least) / median(values)
}

/// How many times better (above 1) or worse ours is than theirs: the median over pairs, which are
/// neighbours in time, so that a change of the machine's regime falls out.
pub fn ratio(ours: &[f64], theirs: &[f64], more_is_better: bool) -> f64 {
    let pairs = ours.iter().zip(theirs);
    let ratios: Vec<f64> = pairs.map(|(o, t)| if more_is_better { o / t } else { t / o }).collect();
    median(&ratios)
}

/// A number in JSON, which has no NaN: what was not measured is null.
pub fn number(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.4}")
    } else {
        "null".to_string()
    }
}

/// Writes objects, already in JSON, as a list; makes the folder if it is not there.
pub fn write_list(objects: &[String], path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("[\n{}\n]\n", objects.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_middle_one_of_the_pairs_and_above_one_where_ours_is_better() {
        let (ours, theirs) = ([1.0, 2.0, 10.0], [2.0, 6.0, 10.0]);
        assert_eq!(ratio(&ours, &theirs, false), 2.0);
        assert_eq!(ratio(&ours, &theirs, true), 0.5);
        assert!(ratio(&ours, &[], false).is_nan());
        assert_eq!((median(&[4.0, 1.0]), spread(&[1.0, 2.0, 5.0])), (2.5, 2.0));
        assert_eq!(number(f64::NAN), "null");
    }
}
