//! One run of the command that is measured.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use regex::Regex;

use super::CoresError;

/// What counts of a run; higher is better.
pub enum Figure {
    /// How often the command could run in a second.
    Speed,
    /// The last number that it prints at this place.
    Printed(Regex),
}

impl Figure {
    /// From the command line.
    ///
    /// # Errors
    /// It is no expression, or has no brackets for the number.
    pub fn parse(text: Option<&str>) -> Result<Figure, CoresError> {
        let Some(text) = text else { return Ok(Figure::Speed) };
        let regex = Regex::new(text).map_err(|error| CoresError::Figure(error.to_string()))?;
        if regex.captures_len() < 2 {
            return Err(CoresError::Figure("the number stands in brackets, as ([0-9.]+)".into()));
        }
        Ok(Figure::Printed(regex))
    }

    /// What it is, for people.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Speed => "runs/s",
            Self::Printed(_) => "as printed",
        }
    }

    /// Runs the command once. What it prints is shown when it fails.
    ///
    /// # Errors
    /// It cannot be run, fails, or prints no such number.
    pub fn measure(&self, program: &[OsString]) -> Result<f64, CoresError> {
        let (name, arguments) = program.split_first().ok_or_else(|| wrong("no command"))?;
        let name_text = name.to_string_lossy();
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null());
        let begin = Instant::now();
        let output = command.output().map_err(|error| wrong(&format!("{name_text}: {error}")))?;
        let seconds = begin.elapsed().as_secs_f64();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        if !output.status.success() {
            eprint!("{printed}");
            return Err(wrong(&format!("{name_text} failed ({})", output.status)));
        }
        match self {
            Self::Speed => Ok(1.0 / seconds.max(f64::MIN_POSITIVE)),
            Self::Printed(regex) => last_number(regex, &printed)
                .ok_or_else(|| wrong(&format!("{name_text} prints no number at {regex}"))),
        }
    }
}

fn last_number(regex: &Regex, printed: &str) -> Option<f64> {
    let found = regex.captures_iter(printed).filter_map(|captures| captures.get(1)).last()?;
    // Some write thousands apart.
    let number: f64 = found.as_str().replace(',', "").parse().ok()?;
    number.is_finite().then_some(number)
}

fn wrong(why: &str) -> CoresError {
    CoresError::Command(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(figure: Option<&str>, script: &str) -> Result<f64, CoresError> {
        let program = ["sh", "-c", script].map(OsString::from);
        Figure::parse(figure).unwrap().measure(&program)
    }

    #[test]
    fn the_last_number_that_is_printed_counts() {
        let script = "echo 'rps: 1,000.5 x'; echo 'rps: 2,000.5 x' >&2";
        assert_eq!(measured(Some("rps: ([0-9.,]+)"), script).unwrap(), 2000.5);
    }

    #[test]
    fn the_time_counts_without_a_figure() {
        let fast = measured(None, "true").unwrap();
        let slow = measured(None, "sleep 0.2").unwrap();
        assert!(slow < 5.0 && fast > slow, "{fast} {slow}");
    }

    #[test]
    fn a_command_that_fails_or_prints_nothing_is_told() {
        let told = |result: Result<f64, CoresError>| result.unwrap_err().to_string();
        assert!(told(measured(None, "exit 3")).contains("exit status: 3"));
        assert!(told(measured(Some("x([0-9])"), "echo y")).contains("prints no number"));
        assert!(Figure::parse(Some("(")).is_err() && Figure::parse(Some("x")).is_err());
    }
}
