//! Programs with locks, as those with memory regions in `programs`: a line is a command and its words.
//!
//! A *key* is what a test calls something that the program has opened, a *hold* what it has acquired.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use heliostat_client::ControlError;
use heliostat_stub_lock::{
    Barrier, Held, Lock, LockError, Locks, Named, Passed, Pending, ReaderWriterLock, Semaphore,
};

use super::programs::play_with;
use super::{recorded, recorded_through};

/// A program's part.
pub fn play() {
    play_with(|| {
        let mut actor = Actor::new();
        move |words: &[&str]| actor.act(words).unwrap_or_else(|error| told(&error))
    });
}

/// An error by its kind, and what it says besides.
pub fn told(error: &LockError) -> String {
    match error {
        LockError::Control(ControlError::Refused { code, limit, .. }) => {
            format!("error refused {code:?} {limit}")
        }
        LockError::Unreachable { node, may_have_happened } => {
            format!("error node {node}{}", if *may_have_happened { " maybe" } else { "" })
        }
        LockError::Broken { generation, why } => format!("error broken {generation} {why:?}"),
        other => format!("error {other:?}"),
    }
}

enum Thing {
    Lock(Lock),
    ReaderWriter(ReaderWriterLock),
    Semaphore(Semaphore),
    Barrier(Barrier),
}

struct Actor {
    locks: Locks,
    things: HashMap<String, Thing>,
    holds: HashMap<String, Held>,
    pending: HashMap<String, Pending>,
}

impl Actor {
    fn new() -> Actor {
        Actor {
            locks: Locks::open().unwrap(),
            things: HashMap::new(),
            holds: HashMap::new(),
            pending: HashMap::new(),
        }
    }

    fn act(&mut self, words: &[&str]) -> Result<String, LockError> {
        match *words {
            ["open", key, kind, name, ref rest @ ..] => self.open(key, kind, name, rest)?,
            ["close", key] => drop(self.things.remove(key).unwrap()),
            // How it is claimed: x, s, or a number of permits; how long it waits: wait, try, or ms.
            ["claim", key, hold, how, patience] => {
                let held = self.claim(key, how, patience)?;
                return Ok(self.keep(hold, held));
            }
            ["request", key, hold] => {
                let Thing::Lock(lock) = &self.things[key] else { panic!("{words:?}") };
                self.pending.insert(hold.into(), lock.request()?);
            }
            ["await", hold] => {
                let held = self.pending.remove(hold).unwrap().wait()?;
                return Ok(self.keep(hold, Some(held)));
            }
            ["give_up", hold] => drop(self.pending.remove(hold).unwrap()),
            ["release", hold] => self.holds.remove(hold).unwrap().release()?,
            ["holds", hold] => return Ok(self.holds[hold].is_held().to_string()),
            ["arrive", key, patience] => return self.arrive(key, patience),
            ["reset", key] => self.barrier(key).reset()?,
            ["count", key, path, times] => self.count(key, path, number(times))?,
            ["record", key, path, count, seed] => {
                let times = (number(count), number(seed));
                match &self.things[key] {
                    Thing::ReaderWriter(lock) => recorded::use_lock(lock, path, times)?,
                    Thing::Semaphore(semaphore) => recorded::use_semaphore(semaphore, path, times)?,
                    _ => panic!("{words:?}"),
                }
            }
            ["record_through", node, name, path, ms, seed] => {
                let locks = self.locks.on(number(node));
                recorded_through::use_lock(&locks, name, path, (number(ms), number(seed)));
            }
            ["together", key, threads, times] => {
                return self.together(key, number(threads), number(times))
            }
            ["list"] => return list(&self.locks),
            ["list", node] => return list(&self.locks.on(number(node))),
            ["anew"] => self.locks = Locks::open()?,
            _ => panic!("{words:?}"),
        }
        Ok("done".into())
    }

    fn open(&mut self, key: &str, kind: &str, name: &str, rest: &[&str]) -> Result<(), LockError> {
        let node = rest.iter().find_map(|word| word.strip_prefix("on="));
        let locks = node.map_or(self.locks.clone(), |node| self.locks.on(number(node)));
        let mut named = locks.named(name);
        let mut count = 0;
        for word in rest {
            named = match word.split_once('=') {
                Some(("on", _)) => named,
                Some(("user", user)) => named.of_user(number(user) as u32),
                _ if *word == "silent" => named.silent(),
                _ => {
                    count = number(word) as u32;
                    named
                }
            };
        }
        let thing = opened(named, kind, count)?;
        self.things.insert(key.into(), thing);
        Ok(())
    }

    fn claim(&self, key: &str, how: &str, patience: &str) -> Result<Option<Held>, LockError> {
        let within = || Duration::from_millis(number(patience));
        match (&self.things[key], how, patience) {
            (Thing::Lock(it), "x", "wait") => it.acquire().map(Some),
            (Thing::Lock(it), "x", "try") => it.try_acquire(),
            (Thing::Lock(it), "x", _) => it.acquire_within(within()),
            (Thing::ReaderWriter(it), "x", "wait") => it.write().map(Some),
            (Thing::ReaderWriter(it), "x", "try") => it.try_write(),
            (Thing::ReaderWriter(it), "x", _) => it.write_within(within()),
            (Thing::ReaderWriter(it), "s", "wait") => it.read().map(Some),
            (Thing::ReaderWriter(it), "s", "try") => it.try_read(),
            (Thing::ReaderWriter(it), "s", _) => it.read_within(within()),
            (Thing::Semaphore(it), count, "wait") => it.acquire(number(count) as u32).map(Some),
            (Thing::Semaphore(it), count, "try") => it.try_acquire(number(count) as u32),
            (Thing::Semaphore(it), count, _) => it.acquire_within(number(count) as u32, within()),
            _ => panic!("{key} {how} {patience}"),
        }
    }

    /// What is held, and whether a holder has died; its token is told as far as it is used.
    fn keep(&mut self, hold: &str, held: Option<Held>) -> String {
        let Some(held) = held else { return "late".into() };
        let died = if held.has_owner_died() { " owner-died" } else { "" };
        let text = format!("held {}{died}", held.token());
        self.holds.insert(hold.into(), held);
        text
    }

    fn barrier(&self, key: &str) -> &Barrier {
        match &self.things[key] {
            Thing::Barrier(barrier) => barrier,
            _ => panic!("{key} is no barrier"),
        }
    }

    fn arrive(&self, key: &str, patience: &str) -> Result<String, LockError> {
        let passed = match patience {
            "wait" => Some(self.barrier(key).wait()?),
            ms => self.barrier(key).wait_within(Duration::from_millis(number(ms)))?,
        };
        Ok(passed.map_or("late".into(), |Passed { generation, index }| {
            format!("passed {generation} {index}")
        }))
    }

    /// Adds to a number in a file that nothing else protects.
    fn count(&self, key: &str, path: &str, times: u64) -> Result<(), LockError> {
        let Thing::Lock(lock) = &self.things[key] else { panic!("{key} is no lock") };
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        for _ in 0..times {
            let held = lock.acquire()?;
            let mut word = [0; 8];
            file.read_exact_at(&mut word, 0).unwrap();
            let more = u64::from_le_bytes(word) + 1;
            // Whoever else is in here now loses what it adds.
            std::thread::yield_now();
            file.write_all_at(&more.to_le_bytes(), 0).unwrap();
            held.release()?;
        }
        Ok(())
    }

    /// Threads of one process that wait at the same time: how often two were inside at once.
    fn together(&self, key: &str, threads: u64, times: u64) -> Result<String, LockError> {
        use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
        let Thing::Lock(lock) = &self.things[key] else { panic!("{key} is no lock") };
        let (inside, met, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..times {
                        let held = lock.acquire().unwrap();
                        met.fetch_add(inside.fetch_add(1, SeqCst), SeqCst);
                        done.fetch_add(1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                        held.release().unwrap();
                    }
                });
            }
        });
        Ok(format!("{} done, {} met", done.load(SeqCst), met.load(SeqCst)))
    }
}

fn list(locks: &Locks) -> Result<String, LockError> {
    let told = locks.list("")?.into_iter().map(|it| {
        let died = if it.has_owner_died { ":owner-died" } else { "" };
        let broken = if it.is_broken { ":broken" } else { "" };
        let (kind, name) = (it.shape.kind.word(), it.name.as_str());
        format!("{name}:{kind}:{}:{}:{}{died}{broken}", it.opened, it.held, it.waiting)
    });
    Ok(format!("listed {}", told.collect::<Vec<_>>().join(" ")))
}

fn opened(named: Named<'_>, kind: &str, count: u32) -> Result<Thing, LockError> {
    Ok(match kind {
        "lock" => Thing::Lock(named.lock()?),
        "reader_writer" => Thing::ReaderWriter(named.reader_writer()?),
        "semaphore" => Thing::Semaphore(named.semaphore(count)?),
        "barrier" => Thing::Barrier(named.barrier(count)?),
        other => panic!("{other}"),
    })
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}
