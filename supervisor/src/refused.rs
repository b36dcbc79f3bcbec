//! What a sealed program asked for and did not get: each kind said once, within a limit.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use heliostat_base::sys::Sysno;
use heliostat_control::policy::record::{Ask, Recorder};
use heliostat_control::policy::Access;

/// Different refusals that are remembered and said; that there were more is said once.
const REMEMBERED: usize = 1024;

/// Refusals, each kind once.
#[derive(Debug, Default)]
pub struct Refused {
    known: BTreeSet<String>,
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

    /// A path that is there and not granted, or not for that. Of /proc a program sees its own
    /// part, whatever is granted.
    pub fn path(&mut self, call: Sysno, path: &Path, access: Access) {
        let ask = Ask::Path(path, access);
        let flag = ask.flag().filter(|_| !path.starts_with("/proc"));
        let grant = flag.map(|flag| format!("{flag} would grant"));
        let grant = grant.as_deref().unwrap_or("is not its own");
        self.tell(format!("{call}: {}, which {grant}", ask.words()));
    }

    /// Something that a grant may allow.
    pub fn ask(&mut self, call: Sysno, ask: Ask<'_>, granted: bool) {
        self.record(ask, granted);
        if !granted {
            let flag = ask.flag().unwrap_or_default();
            self.tell(format!("{call}: {}, which {flag} would grant", ask.words()));
        }
    }

    /// A name that was looked up.
    pub fn name(&mut self, name: &str, granted: bool) {
        let name = Ask::Name(name);
        self.record(name, granted);
        if !granted {
            let flag = name.flag().unwrap_or_default();
            self.tell(format!("{}, which {flag} would grant", name.words()));
        }
    }

    /// A name server that is reached by who may look names up; which name is asked for, nobody hears.
    pub fn look_ups(&mut self, call: Sysno) {
        self.tell(format!("{call}: to look names up, which --lookup NAME would grant"));
    }

    /// A user that it became.
    pub fn user(&mut self, name: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note_user(name);
        }
    }

    /// How many kinds of refusals there were.
    pub fn count(&self) -> i32 {
        i32::try_from(self.known.len()).unwrap_or(i32::MAX)
    }

    /// A call that no grant would allow.
    pub fn call(&mut self, call: Sysno, why: &str) {
        self.record(Ask::Call(call.name()), false);
        self.tell(format!("{call}: {why}"));
    }

    fn record(&mut self, ask: Ask<'_>, granted: bool) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(ask, granted);
        }
    }

    /// Says a refusal if it is the first of its kind.
    fn tell(&mut self, text: String) {
        if self.known.len() > REMEMBERED || self.known.contains(&text) {
            return;
        }
        if self.known.len() == REMEMBERED {
            self.say(&format!("more than {REMEMBERED} different things; no more are listed"));
        } else {
            self.say(&text);
        }
        self.known.insert(text);
    }

    /// A path may hold anything: one line stays one, and no terminal takes it for a command.
    fn say(&mut self, text: &str) {
        let line: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        if self.tells {
            // Whoever read it may be gone (`| head`), which is nothing to panic about.
            let _ = writeln!(std::io::stderr(), "heliostat: refused: {line}");
        }
        if let Some(report) = &mut self.report {
            let _ = report.write_all(format!("{line}\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn each_kind_is_said_once_on_a_line_of_its_own_and_never_more_than_the_limit() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut refused = Refused::new(false, file.try_clone().ok(), None);
        let path = Path::new("/x\x1b[2J\n/y");
        for _ in 0..2 {
            refused.path(Sysno::open, path, Access::ReadOnly);
        }
        for number in 0..2 * REMEMBERED {
            refused.call(Sysno::bpf, &number.to_string());
        }
        let mut said = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut said)).expect("what was said");
        let lines: Vec<_> = said.lines().collect();
        let first = "open: to read /x?[2J?/y, which --grant /x?[2J?/y:ro would grant";
        assert_eq!((lines.len(), lines[0]), (REMEMBERED + 1, first));
        assert!(lines[REMEMBERED].starts_with("more than 1024"));
        assert_eq!(refused.count(), REMEMBERED as i32 + 1);
    }
}
