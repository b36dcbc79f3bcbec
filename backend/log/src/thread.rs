//! A thread that drives a log, for programs that do not wait for their appends.

use std::sync::Arc;
use std::thread::JoinHandle;

use heliostat_base::sync::{AtomicBool, Ordering};

use crate::error::LogError;
use crate::log::Log;
use crate::waiting::Slot;

/// Drives a log until it is dropped. It sleeps while there is nothing to do.
#[derive(Debug)]
pub struct DriverThread {
    log: Log,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DriverThread {
    /// Starts a thread for a log.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(log: &Log) -> Result<DriverThread, LogError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (its_log, its_end) = (log.clone(), is_over.clone());
        let run = move || {
            let done = || its_end.load(Ordering::Acquire).then_some(());
            // A log that has failed needs no driver.
            let _ = its_log.core.wait_until(Slot::Any, None, done);
        };
        let thread = std::thread::Builder::new().name("heliostat-log".into()).spawn(run);
        let to_error = |error: std::io::Error| error.raw_os_error().unwrap_or(libc_eagain());
        let thread = thread.map_err(|error| LogError::System { errno: to_error(error) })?;
        Ok(DriverThread { log: log.clone(), is_over, thread: Some(thread) })
    }
}

impl Drop for DriverThread {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.log.core.waiting.wake(Slot::Any);
        let own = std::thread::current().id();
        // A callback that drops the last handle of a log runs in this thread, which ends by itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != own) {
            // A callback that panics ends the thread; there is nobody to tell.
            let _ = thread.join();
        }
    }
}

/// EAGAIN: what the kernel says where it has no thread left.
const fn libc_eagain() -> i32 {
    11
}
