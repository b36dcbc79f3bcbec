//! Locks, reader-writer locks, semaphores and barriers between programs, by name.
//!
//! They are made by the first program that opens a name, and gone with the last. Each line is served
//! first come, first served. What a program holds ends with it, and the next holder is told so.
//! `docs/locks.md` tells what is promised.
//!
//! ```no_run
//! use std::time::Duration;
//! use heliostat::control;
//! use heliostat::lock::{LockError, Locks};
//!
//! control::configure_as_usual("worker");
//! let locks = Locks::open()?;
//!
//! let journal = locks.lock("journal")?;
//! let held = journal.acquire()?;
//! if held.has_owner_died() {
//!     // The last holder has died in the middle of something: put it right.
//! }
//! // Whatever is written now may carry the token: those of later holders are larger.
//! println!("{}", held.token());
//! held.release()?;
//!
//! // At most four programs at once, and this one waits no longer than a second.
//! let gate = locks.semaphore("gate", 4)?;
//! let Some(permit) = gate.acquire_within(1, Duration::from_secs(1))? else { return Ok(()) };
//!
//! // All eight have done this step before any begins the next.
//! let step = locks.barrier("step", 8)?;
//! step.wait()?;
//! drop(permit);
//! # Ok::<(), LockError>(())
//! ```
//!
//! Without a control plane there are none:
//!
//! ```
//! use heliostat::control::{self, ControlError};
//! use heliostat::lock::{LockError, Locks};
//!
//! control::configure("/nonexistent/control.sock", "example");
//! let opened = Locks::open().map(drop);
//! assert!(matches!(opened, Err(LockError::Control(ControlError::NotRunning(_)))));
//! ```

pub use heliostat_stub_lock::*;
