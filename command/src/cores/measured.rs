//! What partitions were measured at on this machine, kept beside the socket for people to see.

use std::fs;

use heliostat_abi::place::Surroundings;
use serde_json::{json, Value};

use super::place::measured_path;

/// Bytes of a measurement that is believed.
const BYTES_MAX: u64 = 1 << 20;

/// A measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The command.
    pub command: String,
    /// By what a partition had to be better than none.
    pub margin: f64,
    /// Each partition, with its median's ratio to none.
    pub ratios: Vec<(String, f64)>,
    /// Which was kept; `none` where none was.
    pub kept: String,
}

impl Measured {
    /// The last one; `None` where there is none that can be read.
    pub fn last(here: &Surroundings) -> Option<Measured> {
        let path = measured_path(here);
        let is_small = fs::metadata(&path).ok()?.len() <= BYTES_MAX;
        let value: Value =
            serde_json::from_slice(&fs::read(&path).ok().filter(|_| is_small)?).ok()?;
        let pair =
            |each: &Value| Some((each["partition"].as_str()?.to_owned(), each["ratio"].as_f64()?));
        Some(Measured {
            command: clean(value["command"].as_str()?),
            margin: value["margin"].as_f64()?,
            ratios: value["partitions"].as_array()?.iter().filter_map(pair).collect(),
            kept: clean(value["kept"].as_str()?),
        })
    }

    /// Keeps it. Where that is not possible it was shown at least.
    pub fn keep(&self, here: &Surroundings) {
        let pair =
            |(partition, ratio): &(String, f64)| json!({ "partition": partition, "ratio": ratio });
        let value = json!({
            "command": self.command,
            "margin": self.margin,
            "partitions": self.ratios.iter().map(pair).collect::<Vec<_>>(),
            "kept": self.kept,
        });
        let _ = fs::write(measured_path(here), format!("{value}\n"));
    }

    /// The rule and what it decided, in a line.
    pub fn text(&self) -> String {
        let best = self.ratios.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let best = best.map_or(String::new(), |(partition, ratio)| {
            format!(", best partition ({partition}) {ratio:.2} of none")
        });
        let more = (1.0 + self.margin) * 100.0;
        format!("measured with {}{best}; kept above {more:.0} %: {}", self.command, self.kept)
    }
}

/// Without what would turn a terminal's line round.
fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_kept_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let socket = Some(folder.path().join("s").into_os_string());
        let here = Surroundings { socket, runtime: None, uid: 0 };
        assert_eq!(Measured::last(&here), None);
        let measured = Measured {
            command: "wrk".into(),
            margin: 0.02,
            ratios: vec![("kernel 1".into(), 0.62)],
            kept: "none".into(),
        };
        measured.keep(&here);
        assert_eq!(Measured::last(&here), Some(measured.clone()));
        let wanted =
            "measured with wrk, best partition (kernel 1) 0.62 of none; kept above 102 %: none";
        assert_eq!(measured.text(), wanted);
    }
}
