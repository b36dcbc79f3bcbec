//! Rows of the table, their statistics, and the file that is written.

use std::fmt::Write;

use heliostat_bench_report::{number, spread, write_list};

pub use heliostat_bench_report::median;

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

impl Row {
    /// How many times better (above 1) or worse ours is than the other, median of the pairs:
    /// pairs are neighbours in time, so that a change of the machine's regime falls out.
    pub fn ratio(&self) -> f64 {
        heliostat_bench_report::ratio(&self.ours, &self.theirs, self.more_is_better)
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
    write_list(&lines, path)
}
