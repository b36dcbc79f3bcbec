//! What a sealed program asked for and did not get, by name, within a limit.

use std::collections::BTreeMap;

use heliostat_base::sys::Sysno;

/// Different refusals that are remembered; more are counted together.
const REMEMBERED: usize = 1024;

/// Refusals with their counts.
#[derive(Debug, Default)]
pub struct Refused {
    counts: BTreeMap<String, u64>,
    others: u64,
    tells: bool,
}

impl Refused {
    /// `tells`: the first of a kind is said on standard error.
    pub fn new(tells: bool) -> Self {
        Self { tells, ..Self::default() }
    }

    /// A path that is not granted, or not for writing.
    pub fn path(&mut self, call: Sysno, path: &[u8], writes: bool) {
        let path = String::from_utf8_lossy(path);
        let what = if writes { "is granted for reading only" } else { "does not exist for it" };
        self.count(format!("{call}: {path} {what}"));
    }

    /// A call that no grant would allow.
    pub fn call(&mut self, call: Sysno, why: &str) {
        self.count(format!("{call}: {why}"));
    }

    fn count(&mut self, text: String) {
        if self.counts.len() >= REMEMBERED && !self.counts.contains_key(&text) {
            self.others += 1;
            return;
        }
        let count = self.counts.entry(text.clone()).or_default();
        *count += 1;
        if *count == 1 && self.tells {
            eprintln!("heliostat: refused: {text}");
        }
    }

    /// All that are remembered, with counts.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(text, count)| (text.as_str(), *count))
    }
}
