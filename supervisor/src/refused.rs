//! What a sealed program asked for and did not get, by name, within a limit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;

use heliostat_base::sys::Sysno;
use heliostat_control::policy::record::{Ask, Recorder};

/// Different refusals that are remembered; more are counted together.
const REMEMBERED: usize = 1024;

/// Refusals with their counts.
#[derive(Debug, Default)]
pub struct Refused {
    counts: BTreeMap<String, u64>,
    others: u64,
    tells: bool,
    /// What it asked for, if that is wanted.
    recorder: Option<Recorder>,
    /// Where refusals are written for `explain`, a line each.
    report: Option<File>,
}

impl Refused {
    /// `tells`: the first of a kind is said on standard error.
    pub fn new(tells: bool, report: Option<File>, recorder: Option<Recorder>) -> Self {
        Self { tells, report, recorder, ..Self::default() }
    }

    /// What it asked for, if that was wanted.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// An address that a look-up of a name gave.
    pub fn learned(&mut self, name: &str, ip: IpAddr) {
        if let Some(recorder) = &mut self.recorder {
            recorder.learn(name, ip);
        }
    }

    /// A path that is not granted, or not for writing.
    pub fn path(&mut self, call: Sysno, path: &[u8], writes: bool) {
        let path = String::from_utf8_lossy(path);
        let what = if writes { "is granted for reading only" } else { "does not exist for it" };
        self.count(format!("{call}: {path} {what}"));
    }

    /// Something that a grant may allow.
    pub fn ask(&mut self, call: Sysno, ask: Ask<'_>, granted: bool) {
        self.record(ask, granted);
        if !granted {
            let flag = ask.flag().unwrap_or_default();
            self.count(format!("{call}: {}, which {flag} would grant", ask.words()));
        }
    }

    /// A name that was looked up.
    pub fn name(&mut self, name: &str, granted: bool) {
        let name = Ask::Name(name);
        self.record(name, granted);
        if !granted {
            let flag = name.flag().unwrap_or_default();
            self.count(format!("{}, which {flag} would grant", name.words()));
        }
    }

    /// A call that no grant would allow.
    pub fn call(&mut self, call: Sysno, why: &str) {
        self.record(Ask::Call(call.name()), false);
        self.count(format!("{call}: {why}"));
    }

    fn record(&mut self, ask: Ask<'_>, granted: bool) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(ask, granted);
        }
    }

    fn count(&mut self, text: String) {
        if self.counts.len() >= REMEMBERED && !self.counts.contains_key(&text) {
            self.others += 1;
            return;
        }
        let count = self.counts.entry(text.clone()).or_default();
        *count += 1;
        if *count > 1 {
            return;
        }
        // A path may hold anything: one line stays one, and no terminal takes it for a command.
        let line: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        if self.tells {
            eprintln!("heliostat: refused: {line}");
        }
        if let Some(report) = &mut self.report {
            let _ = report.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// All that are remembered, with counts.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(text, count)| (text.as_str(), *count))
    }
}
