//! Has devices measured beside the loops and the event loop, one after the other.
//!
//! Two at a time would measure each other. Only behind one that hangs in its file system the next
//! begins all the same, on another thread, while there is one.
//!
//! ```text
//! first large file of a device --> line --> thread: measure --> the device's threshold
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_uring::By;
use heliostat_server_loop::pool::{Pool, Work};

use super::device::Device;
use super::probe::{measure, ProbeFile, FILE_BYTES_MIN};

/// Threads that measure: each may be lost to a file system that hangs.
const PROBERS_MAX: usize = 4;
/// One that has been away for so long hangs: it begins no read after a tenth of that.
const STUCK: Duration = Duration::from_secs(2);

/// The line's end in the event loop. Dropped, its threads end, each after what it is in.
pub struct Prober(Pool<Probing>);

struct Probing {
    by: By,
}

/// Devices in line: each once in its life, so that there are never more than known ones.
#[derive(Default)]
struct Line {
    waiting: VecDeque<(Arc<Device>, ProbeFile)>,
    away: Vec<(u64, Instant)>,
    tickets: u64,
}

impl Prober {
    /// Without a thread until something is to be measured. Requests are made as the loops make them.
    pub fn new(by: By) -> Prober {
        Prober(Pool::new(Probing { by }))
    }

    /// A file was opened that a lease vouches for: its device is measured by it soon, if it has not
    /// been and the file is large enough.
    pub fn consider(&self, device: &Arc<Device>, file: ProbeFile) {
        if file.bytes < FILE_BYTES_MIN || !device.begin() {
            return;
        }
        if self.0.start().is_err() {
            return device.decide(Err("there was no thread to measure it"));
        }
        self.0.put(|line| line.waiting.push_back((device.clone(), file)));
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Work for Probing {
    type Queue = Line;
    type Job = (u64, Arc<Device>, ProbeFile);
    const NAME: &'static str = "prober";
    const THREADS_MAX: usize = PROBERS_MAX;

    fn next(line: &mut Line, now: Instant) -> Option<Self::Job> {
        if line.due().is_some_and(|due| now < due) {
            return None;
        }
        let (device, file) = line.waiting.pop_front()?;
        line.tickets += 1;
        line.away.push((line.tickets, now));
        Some((line.tickets, device, file))
    }

    fn due(line: &Line) -> Option<Instant> {
        line.due().filter(|_| !line.waiting.is_empty())
    }

    fn run(&self, (ticket, device, file): Self::Job, pool: &Pool<Self>) {
        device.decide(measure(&file, self.by));
        pool.with_queue(|line| line.away.retain(|(other, _)| *other != ticket));
    }
}

impl Line {
    /// When the last one that is away counts as hanging.
    fn due(&self) -> Option<Instant> {
        self.away.iter().map(|(_, since)| *since + STUCK).max()
    }
}
