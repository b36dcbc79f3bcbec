//! Versions of memory that many threads write: a barrier for threads that go in step, a gate for
//! threads that do not.

mod barrier;
mod gate;

use std::sync::{Mutex, MutexGuard, PoisonError};

use heliostat_base::{call, process};

pub use barrier::{Barrier, Member};
pub use gate::{Gate, WriteGuard, Writer};

use super::named::NamedRegion;
use super::outcome::{PublishError, Published};
use super::region::Region;

/// What makes versions: a region, with or without a name.
pub trait Publisher: Send {
    /// Makes a version while nobody writes.
    fn publish_now(&mut self) -> Result<Published, PublishError>;
}

impl Publisher for Region {
    fn publish_now(&mut self) -> Result<Published, PublishError> {
        self.publish()
    }
}

impl Publisher for NamedRegion {
    fn publish_now(&mut self) -> Result<Published, PublishError> {
        self.publish()
    }
}

/// A thread that was waited for in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Its name, as the thread was called when it joined.
    pub name: String,
    /// Its number, 0 for one that never joined.
    pub tid: i32,
    /// It has ended without leaving.
    pub is_dead: bool,
}

impl Missing {
    fn new((name, tid): &(String, i32)) -> Self {
        Self { name: name.clone(), tid: *tid, is_dead: !call::thread_exists(*tid) }
    }
}

/// Why no version was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepError {
    /// These threads did not come, or go out, in time.
    Late(Vec<Missing>),
    /// All places are taken.
    NoPlace {
        /// Writers there may be.
        limit: usize,
    },
    /// The version could not be made.
    Publish(PublishError),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Late(missing) => {
                f.write_str("waited in vain for")?;
                missing.iter().try_for_each(|it| {
                    let end = if it.is_dead { ", which has ended" } else { "" };
                    write!(f, " {} (thread {}{end})", it.name, it.tid)
                })
            }
            Self::NoPlace { limit } => write!(f, "all {limit} writers have joined"),
            Self::Publish(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for StepError {}

fn here() -> (String, i32) {
    let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
    (name, process::tid())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
