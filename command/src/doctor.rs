//! `heliostat doctor`: what this machine allows, and what to do about what it does not.
//!
//! Each check tries the thing itself instead of reading a version number, and says in one line
//! what it found; advice follows only where something is to be done.

mod cores;
mod files;
mod machine;
mod memory;
mod mounts;
mod network;
mod parts;
mod patching;
mod process;
mod purpose;
mod sealing;

use std::process::ExitCode;

use serde_json::json;

use crate::args::{ControlPlace, DoctorArguments};
use crate::show::print;

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, with a loss that the advice names.
    Warn,
    /// Heliostat cannot work, or not cover programs.
    Fail,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One line of the examination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; empty for nothing.
    pub advice: &'static str,
    /// What was looked for is not there, or cannot be used: whatever needs it cannot work.
    pub is_missing: bool,
}

impl Check {
    /// Nothing to do.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Check {
        let found = found.into();
        Check { name, verdict: Verdict::Ok, found, advice: "", is_missing: false }
    }

    /// A loss.
    pub fn warn(name: &'static str, found: impl Into<String>, advice: &'static str) -> Check {
        Check { name, verdict: Verdict::Warn, found: found.into(), advice, is_missing: false }
    }

    /// An obstacle.
    pub fn fail(name: &'static str, found: impl Into<String>, advice: &'static str) -> Check {
        Check { name, verdict: Verdict::Fail, found: found.into(), advice, is_missing: true }
    }

    /// An obstacle for some programs only: a loss.
    pub fn softened(mut self) -> Check {
        if self.verdict == Verdict::Fail {
            self.verdict = Verdict::Warn;
        }
        self
    }

    /// Ok, or an obstacle with the error that was met.
    pub fn of<T, E: std::fmt::Display>(
        name: &'static str,
        answer: Result<T, E>,
        good: &str,
        advice: &'static str,
    ) -> Check {
        match answer {
            Ok(_) => Check::ok(name, good),
            Err(error) => Check::fail(name, error.to_string(), advice),
        }
    }
}

/// Examines the machine and prints what was found; fails if something fails, or, where it is asked
/// for certain purposes, if one of these cannot be served.
pub fn doctor(arguments: &DoctorArguments) -> ExitCode {
    let format = &arguments.format;
    let mut checks = examine(&format.place);
    let asked = purpose::checks(&arguments.purposes, &checks);
    let decisive = if asked.is_empty() { &checks } else { &asked };
    let fails = decisive.iter().any(|check| check.verdict == Verdict::Fail);
    checks.extend(asked);
    let text = if format.json { as_json(&checks) } else { as_text(&checks) };
    // Where nothing can be printed the status still tells.
    let _ = print(&text);
    ExitCode::from(u8::from(fails))
}

fn examine(place: &ControlPlace) -> Vec<Check> {
    let mut checks = machine::checks();
    checks.extend(memory::checks());
    checks.extend(files::checks());
    checks.extend(process::checks());
    checks.extend(sealing::checks());
    checks.extend(mounts::checks());
    checks.extend(cores::checks(place));
    checks.push(network::check());
    checks.extend(parts::checks(place));
    checks
}

fn as_text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let line = |check: &Check| {
        let head =
            format!("{:<4}  {:<width$}  {}\n", check.verdict.word(), check.name, check.found);
        match check.advice {
            "" => head,
            advice => format!("{head}{:>indent$}{advice}\n", "-> ", indent = width + 11),
        }
    };
    checks.iter().map(line).collect()
}

fn as_json(checks: &[Check]) -> String {
    let each = |check: &Check| {
        json!({
            "name": check.name,
            "verdict": check.verdict.word(),
            "found": check.found,
            "advice": check.advice,
        })
    };
    let all: Vec<_> = checks.iter().map(each).collect();
    format!("{}\n", json!({ "checks": all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_prints_and_advice_follows_what_is_not_right() {
        let checks = [Check::ok("a", "fine"), Check::warn("bb", "slow", "buy another")];
        let wanted = "ok    a   fine\nwarn  bb  slow\n          -> buy another\n";
        assert_eq!(as_text(&checks), wanted);
    }

    #[test]
    fn the_examination_of_this_machine_ends_and_has_what_purposes_need() {
        let checks = examine(&ControlPlace::default());
        assert!(checks.len() > 10);
        for name in purpose::names() {
            assert!(checks.iter().any(|check| check.name == name), "{name} is no check");
        }
    }
}
