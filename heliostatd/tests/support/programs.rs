//! Programs with memory regions, or others, each a process of its own that does what a test tells it, line by line.
//!
//! A process has one session with the control plane, so the test binary starts itself again:
//! `program_process` of the test's file calls [`play`], which does nothing unless the environment names
//! a socket. A line is a command and its words; the answer is one line, of which `error` is the first
//! word where an operation failed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use heliostat_client::{session, ControlError};
use heliostat_stub_memory::{
    MappedBytes, Memory, MemoryError, Questions, Region, RegionId, Rights, OWN_USER,
};

use super::beside::become_user;
use super::operations;
use super::recorded::change_words;
use super::recorded_through;
use super::{Daemon, STARTS, WATCHDOG};

#[path = "many_regions.rs"]
mod many_regions;
#[path = "region_orders.rs"]
mod region_orders;

const SOCKET: &str = "MEMORY_SOCKET";
const USER: &str = "MEMORY_USER";
/// What answers begin with: the test harness writes lines of its own.
const ANSWER: &str = "> ";

/// A program, as its test sees it. Killed with the value.
pub struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// One of this test's user.
    pub fn start(daemon: &Daemon) -> Program {
        Program::with(daemon, None, &[])
    }

    /// One of another user; only root may.
    pub fn of_user(daemon: &Daemon, user: u32) -> Program {
        Program::with(daemon, Some(user), &[])
    }

    /// One of perhaps another user, with more in its environment.
    pub fn with(daemon: &Daemon, user: Option<u32>, environment: &[(&str, &str)]) -> Program {
        let _guard = STARTS.write();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "program_process", "--nocapture"]);
        command.env(SOCKET, daemon.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(environment.iter().copied());
        user.map(|user| command.env(USER, user.to_string()));
        let mut child = command.spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut program = Program { child, orders, answers: BufReader::new(answers) };
        assert_eq!(program.hear(), "ready");
        program
    }

    /// Tells it to do something, without waiting.
    pub fn send(&mut self, line: &str) {
        writeln!(self.orders, "{line}").unwrap();
    }

    /// Waits for its next answer.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "it has ended");
            // The harness may have left a line open in front of it.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Tells it to do something and waits for the answer.
    pub fn say(&mut self, line: &str) -> String {
        self.send(line);
        self.hear()
    }

    /// The same for what cannot fail.
    pub fn does(&mut self, line: &str) {
        assert_eq!(self.say(line), "done", "{line}");
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a crash does; returns when it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has a child of a fork drop its copy of a region, and goes on with its own.
fn drop_in_child(region: Arc<Region>) -> Arc<Region> {
    // SAFETY: the child drops one value, which takes no lock of another thread, and ends at once.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        drop(region);
        // SAFETY: ends this process without anything else being run.
        unsafe { libc::_exit(0) }
    }
    let mut status = -1;
    // SAFETY: the status is this function's own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    region
}

/// A program's part.
pub fn play() {
    play_with(|| {
        let memory = Memory::open().unwrap();
        let (regions, stays) = (HashMap::new(), Vec::new());
        let mut actor = Actor { memory, regions, stays, asked: None };
        move |words: &[&str]| actor.act(words).unwrap_or_else(|error| told(&error))
    });
}

/// The same of programs that do something else.
pub fn play_with<A: FnMut(&[&str]) -> String>(begin: impl FnOnce() -> A) {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    if let Ok(user) = std::env::var(USER) {
        assert!(become_user(user.parse().unwrap()));
    }
    session::configure(socket, "program".into());
    let mut act = begin();
    answer("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        answer(&act(&words));
    }
    std::process::exit(0);
}

/// Says something to the test.
pub fn answer(text: &str) {
    println!("{ANSWER}{text}");
}

/// An error by its kind, and what it says besides.
pub(super) fn told(error: &MemoryError) -> String {
    match error {
        MemoryError::Range { limit, .. } => format!("error range {limit}"),
        MemoryError::Size { least, .. } => format!("error size {least}"),
        MemoryError::Misaligned { .. } => "error misaligned".into(),
        MemoryError::Denied { wanted, .. } => format!("error denied {wanted}"),
        MemoryError::Stale { .. } => "error stale".into(),
        MemoryError::Gone { .. } => "error gone".into(),
        MemoryError::Cancelled { .. } => "error cancelled".into(),
        MemoryError::NotMoved { .. } => "error not moved".into(),
        MemoryError::Held { process, .. } => format!("error held {process}"),
        MemoryError::InDoubt { node, .. } => format!("error in doubt {node}"),
        MemoryError::Moving { .. } => "error moving".into(),
        MemoryError::Full { limit } => format!("error full {limit}"),
        MemoryError::Idle => "error idle".into(),
        MemoryError::Node { node, why, .. } => format!("error node {node} {why:?}"),
        MemoryError::Unreachable { node } => format!("error unreachable {node}"),
        MemoryError::Control(ControlError::Refused { code, limit, .. }) => {
            format!("error refused {code:?} {limit}")
        }
        other => format!("error other {other:?}"),
    }
}

struct Actor {
    memory: Memory,
    regions: HashMap<String, Arc<Region>>,
    /// Bytes that this program reaches by their address.
    stays: Vec<MappedBytes>,
    asked: Option<Questions>,
}

impl Actor {
    fn act(&mut self, words: &[&str]) -> Result<String, MemoryError> {
        let done = || Ok("done".to_owned());
        match *words {
            ["on", node, ref rest @ ..] => {
                let here = self.memory.clone();
                self.memory = here.on(number(node));
                let answer = self.act(rest);
                self.memory = here;
                answer
            }
            ["allocate", key, bytes, ref rest @ ..] => self.allocate(key, number(bytes), rest),
            ["map", key, name, what] => self.keep(key, self.memory.map(name, rights(what))?),
            ["map", key, name, what, user] => {
                let user = number(user) as u32;
                self.keep(key, self.memory.map_of(user, name, rights(what))?)
            }
            ["map_region", key, index, generation, what] => {
                let (index, generation) = (number(index) as u32, number(generation) as u32);
                let id = RegionId { index, generation };
                self.keep(key, self.memory.map_region(id, rights(what))?)
            }
            ["list", ref rest @ ..] => self.list(rest.first().copied().unwrap_or("")),
            ["drop", key] => {
                self.regions.remove(key).unwrap();
                done()
            }
            ["free", key] => {
                Arc::into_inner(self.regions.remove(key).unwrap()).unwrap().free()?;
                done()
            }
            ["many", count, bytes] => {
                for at in 0..number(count) {
                    let made = self.memory.allocate(number(bytes)).make()?;
                    self.regions.insert(format!("many-{at}"), Arc::new(made));
                }
                done()
            }
            ["named", what, ref rest @ ..] => {
                let numbers: Vec<u64> = rest.iter().map(|word| number(word)).collect();
                many_regions::on(&self.memory, what, &numbers)
            }
            ["keep_until_refused", most] => {
                let (kept, why) = many_regions::keep_until_refused(&self.memory, most);
                let count = kept.len();
                let kept = kept.into_iter().enumerate();
                let kept = kept.map(|(at, region)| (format!("kept-{at}"), Arc::new(region)));
                self.regions.extend(kept);
                Ok(format!("{count} {why}"))
            }
            ["record_through", name, path, ms, words, seed] => {
                let numbers = (number(ms), number(words), number(seed));
                recorded_through::change_words(&self.memory, name, path, numbers);
                done()
            }
            ["end_delegation"] => {
                self.memory.end_delegation();
                done()
            }
            ["none"] => {
                self.regions.clear();
                done()
            }
            _ => self.act_on_regions(words),
        }
    }

    /// What is about regions that the program has.
    fn act_on_regions(&mut self, words: &[&str]) -> Result<String, MemoryError> {
        let done = || Ok("done".to_owned());
        match *words {
            ["copy", key, offset, into, at, bytes] => {
                let into = &self.regions[into];
                self.regions[key].copy_to(number(offset), into, number(at), number(bytes))?;
                done()
            }
            ["forked", key] => {
                let region = self.regions.remove(key).unwrap();
                let region = drop_in_child(region);
                self.regions.insert(key.into(), region);
                done()
            }
            ["stay", key, offset, bytes] => {
                let mapped = self.regions[key].mapped(number(offset), number(bytes))?;
                self.stays.push(mapped.expect("mapped in one piece"));
                done()
            }
            ["stay_no_more"] => {
                self.stays.clear();
                done()
            }
            ["ask", key] => {
                self.asked = Some(self.regions[key].questions()?);
                done()
            }
            ["answer", what] => self.answer(rights(what)),
            ["operations", what, key, ref rest @ ..] => {
                let numbers: Vec<u64> = rest.iter().map(|word| number(word)).collect();
                operations::on(&self.memory, &self.regions[key], what, &numbers)
            }
            [_, key, ..] => region_orders::on(&self.regions[key], words),
            _ => panic!("{words:?}"),
        }
    }

    fn keep(&mut self, key: &str, region: Region) -> Result<String, MemoryError> {
        let path = match region.node() {
            Some(node) => format!("on {node}"),
            None if region.is_direct() => "direct".into(),
            None => "delegated".into(),
        };
        self.regions.insert(key.into(), Arc::new(region));
        Ok(path)
    }

    fn allocate(&mut self, key: &str, bytes: u64, rest: &[&str]) -> Result<String, MemoryError> {
        let mut asked = self.memory.allocate(bytes);
        for word in rest {
            asked = match word.split_once('=') {
                Some(("name", name)) => asked.name(name),
                Some(("others", what)) => asked.others(rights(what)),
                Some(("replicas", count)) => asked.replicas(number(count) as u32),
                _ => asked.lasting(),
            };
        }
        let made = asked.make()?;
        self.keep(key, made)
    }

    /// Names, bytes and lives of regions.
    fn list(&self, beginning: &str) -> Result<String, MemoryError> {
        let listed = self.memory.list_of(OWN_USER, beginning)?;
        let told = listed.iter().map(|it| {
            let name = it.name.as_ref().map_or("-", |name| name.as_str());
            let life = if it.lasting { "lasting" } else { "leased" };
            format!("{name}:{}:{life}:{}", it.bytes, it.handles)
        });
        Ok(format!("listed {}", told.collect::<Vec<_>>().join(" ")))
    }

    /// Waits for a question and answers it.
    fn answer(&self, rights: Rights) -> Result<String, MemoryError> {
        let asked = self.asked.as_ref().unwrap();
        let question = asked.next(WATCHDOG)?.expect("a question");
        asked.answer(&question, rights)?;
        Ok(format!("asked {} {}", question.user, question.rights))
    }
}

/// Bytes that say where they are.
pub(super) fn pattern(seed: u64, offset: u64, len: u64) -> Vec<u8> {
    (offset..offset + len).map(|at| (seed + at * 7 + at / 251) as u8).collect()
}

pub(super) fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// Rights by their first letters.
pub(super) fn rights(text: &str) -> Rights {
    let each = |letter| match letter {
        'r' => Rights::READ,
        'w' => Rights::WRITE,
        'a' => Rights::ATOMIC,
        's' => Rights::SHARE,
        'm' => Rights::MANAGE,
        '-' => Rights::NONE,
        other => panic!("{other}"),
    };
    text.chars().map(each).fold(Rights::NONE, Rights::and)
}
