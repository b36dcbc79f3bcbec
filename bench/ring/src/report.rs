//! Rows of the table, their statistics, and the file that is written.

use std::fmt::Write;

/// Several repetitions of two things, measured in turn.
pub struct Row {
    /// What is compared.
    pub name: String,
    /// Our repetitions.
    pub ours: Vec<f64>,
    /// The other's repetitions, taken alternately with ours; empty where there is no other.
    pub theirs: Vec<f64>,
    /// Unit of both.
    pub unit: &'static str,
    /// True where a larger number is better.
    pub more_is_better: bool,
    /// The promised ratio, in words.
    pub aim: String,
    /// Cores that took part.
    pub cores: usize,
    /// How it was measured.
    pub note: String,
    /// Bare cache-line round trip just before and after, in ns.
    pub ping_pong_ns: (f64, f64),
}

/// The middle of the values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Distance between the extremes, as a fraction of the median.
pub fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / median(values)
}

impl Row {
    /// How many times better (above 1) or worse ours is than the other, median of the pairs:
    /// pairs are neighbours in time, so that a change of the machine's regime falls out.
    pub fn ratio(&self) -> f64 {
        let pairs = self.ours.iter().zip(&self.theirs);
        let ratios: Vec<f64> =
            pairs.map(|(o, t)| if self.more_is_better { o / t } else { t / o }).collect();
        median(&ratios)
    }

    /// Prints one line of the table.
    pub fn print(&self) {
        println!(
            "{:<44} {:>11.3} {:>11.3} {:<8} {:>8.2} {:>5.0}% {:>5.0}/{:<4.0} {}",
            self.name,
            median(&self.ours),
            median(&self.theirs),
            self.unit,
            self.ratio(),
            spread(&self.ours) * 100.0,
            self.ping_pong_ns.0,
            self.ping_pong_ns.1,
            self.aim
        );
    }

    fn json(&self) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            concat!(
                "  {{\"name\": \"{}\", \"ours\": {}, \"theirs\": {}, \"unit\": \"{}\", ",
                "\"ratio\": {}, \"aim\": \"{}\", \"spread\": {}, \"cores\": {}, ",
                "\"note\": \"{}; ratio above 1 means ours is better; bare ping-pong {:.0} ns ",
                "before, {:.0} ns after; {} alternating repetitions\"}}"
            ),
            self.name,
            number(median(&self.ours)),
            number(median(&self.theirs)),
            self.unit,
            number(self.ratio()),
            self.aim,
            number(spread(&self.ours)),
            self.cores,
            self.note,
            self.ping_pong_ns.0,
            self.ping_pong_ns.1,
            self.ours.len(),
        );
        out
    }
}

/// JSON has no NaN: what was not measured is null.
fn number(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.4}")
    } else {
        "null".to_string()
    }
}

/// Prints the heading of the table.
pub fn print_heading() {
    println!(
        "{:<44} {:>11} {:>11} {:<8} {:>8} {:>6} {:>10} aim",
        "what", "ours", "theirs", "unit", "ratio", "spread", "ping ns"
    );
}

/// Writes all rows as a JSON list.
pub fn write(rows: &[Row], path: &std::path::Path) -> std::io::Result<()> {
    let lines: Vec<String> = rows.iter().map(Row::json).collect();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n")))
}
