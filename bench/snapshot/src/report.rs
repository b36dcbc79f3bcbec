//! Rows of the table, their statistics, and the file that is written.

use std::fmt::Write;

use heliostat_bench_report::{extremes, number, write_list};

pub use heliostat_bench_report::median;

/// What was promised of a row.
#[derive(Clone, Copy)]
pub enum Aim {
    /// Nothing: a figure to know.
    None,
    /// Better than the other by so many times.
    Ratio(f64),
    /// At most so much, in the row's unit.
    AtMost(f64),
}

/// Several repetitions of two things, measured in turn; less is better in every unit but GB/s.
pub struct Row {
    /// What is compared.
    pub name: String,
    /// Our repetitions.
    pub ours: Vec<f64>,
    /// The other's repetitions, taken alternately with ours.
    pub theirs: Vec<f64>,
    /// Unit of both.
    pub unit: &'static str,
    /// The promise.
    pub aim: Aim,
    /// How it was measured.
    pub note: &'static str,
}

impl Row {
    /// How many times better (above 1) ours is: the median of pairs that are neighbours in time,
    /// so that a slow minute of the machine falls out.
    pub fn ratio(&self) -> f64 {
        heliostat_bench_report::ratio(&self.ours, &self.theirs, self.unit == "GB/s")
    }

    /// The promise in words, and whether it is kept.
    fn verdict(&self) -> (String, &'static str) {
        let judge = |kept| if kept { "met" } else { "MISSED" };
        match self.aim {
            Aim::None => (String::new(), ""),
            Aim::Ratio(least) => (format!("ratio >= {least:.2}"), judge(self.ratio() >= least)),
            Aim::AtMost(most) => {
                (format!("at most {most} {}", self.unit), judge(median(&self.ours) <= most))
            }
        }
    }

    /// Prints one line of the table.
    pub fn print(&self) {
        let (least, most) = extremes(&self.ours);
        let (aim, verdict) = self.verdict();
        println!(
            "{:<58} {:>10.2} {:>10.2} {:<7} {:>7.2} {:>9.1}..{:<9.1} {verdict:<6} {aim}",
            self.name,
            median(&self.ours),
            median(&self.theirs),
            self.unit,
            self.ratio(),
            least,
            most,
        );
    }

    fn json(&self) -> String {
        let (aim, aim_is) = match self.aim {
            Aim::None => (f64::NAN, "ratio at least"),
            Aim::Ratio(least) => (least, "ratio at least"),
            Aim::AtMost(most) => (most, "ours at most"),
        };
        let mut out = String::new();
        let _ = write!(
            out,
            concat!(
                "  {{\"name\": \"{}\", \"ours\": {}, \"theirs\": {}, \"unit\": \"{}\", ",
                "\"ratio\": {}, \"aim\": {}, \"aim_is\": \"{}\", \"spread\": {{\"ours\": {}, ",
                "\"theirs\": {}}}, \"cores\": \"any\", \"note\": \"{}\"}}"
            ),
            self.name,
            number(median(&self.ours)),
            number(median(&self.theirs)),
            self.unit,
            number(self.ratio()),
            number(aim),
            aim_is,
            span(&self.ours),
            span(&self.theirs),
            self.note,
        );
        out
    }
}

fn span(values: &[f64]) -> String {
    let (least, most) = extremes(values);
    format!("[{}, {}]", number(least), number(most))
}

/// Prints the heading of the table.
pub fn print_heading() {
    println!(
        "{:<58} {:>10} {:>10} {:<7} {:>7} {:>20} {:<6} aim",
        "what", "ours", "theirs", "unit", "ratio", "ours, least..most", ""
    );
}

/// Writes all rows as a JSON list.
pub fn write(rows: &[Row], path: &std::path::Path) -> std::io::Result<()> {
    let lines: Vec<String> = rows.iter().map(Row::json).collect();
    write_list(&lines, path)
}
