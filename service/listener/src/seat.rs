//! One worker of a listener, as the balance sees it.
//!
//! ```text
//!            ready                 drain
//! Joined -----------> Ready <-----------------> Draining
//!                       |  takes nothing for too long
//!                       v
//!                     passed over, and tried again after a pause that doubles
//! ```

use heliostat_abi::name::ObjectId;

use crate::load::Load;

/// The first pause of a worker that took nothing.
const PAUSE_NS: u64 = 500_000_000;
/// The longest.
const PAUSE_LONGEST_NS: u64 = 16_000_000_000;

/// Whether a worker is given connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has not waited for one yet.
    Joined,
    /// It is.
    Ready,
    /// Not any more.
    Draining,
}

/// One worker.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Which.
    pub worker: ObjectId,
    /// Its place: the smallest number that was free when it came.
    pub place: u32,
    /// Whether it is given connections.
    pub standing: Standing,
    /// How loaded it is.
    pub load: Load,
    /// Connections in its queue.
    untaken: u64,
    /// Since when one lies there and none is taken.
    waiting_since_ns: u64,
    /// Before this it is given nothing, having taken nothing.
    passed_until_ns: u64,
    pause_ns: u64,
    /// How often it was passed over.
    pub passed: u64,
}

impl Seat {
    /// A worker that has not waited yet.
    pub fn new(worker: ObjectId, place: u32) -> Seat {
        Seat {
            worker,
            place,
            standing: Standing::Joined,
            load: Load::default(),
            untaken: 0,
            waiting_since_ns: 0,
            passed_until_ns: 0,
            pause_ns: 0,
            passed: 0,
        }
    }

    /// A connection was put into its queue.
    pub fn give(&mut self, now_ns: u64) {
        if self.untaken == 0 {
            self.waiting_since_ns = now_ns;
        }
        self.untaken += 1;
        self.load.give();
    }

    /// How many lie in its queue, as the kernel says. Who takes some is not passed over.
    pub fn see_untaken(&mut self, untaken: u64, now_ns: u64) {
        if untaken < self.untaken {
            self.note_awake(now_ns);
        }
        self.untaken = untaken.min(self.untaken);
    }

    /// What its page says, see [`Load::hear`].
    pub fn hear(&mut self, closed: u64, weight: u32, now_ns: u64) {
        if self.load.hear(closed, weight, self.untaken) && self.load.is_believed() {
            self.note_awake(now_ns);
        }
    }

    fn note_awake(&mut self, now_ns: u64) {
        (self.waiting_since_ns, self.passed_until_ns, self.pause_ns) = (now_ns, 0, 0);
    }

    /// A connection was taken out of its queue again.
    pub fn take_back(&mut self) {
        self.untaken = self.untaken.saturating_sub(1);
        self.load.take_back();
    }

    /// It took nothing for too long: it is given nothing for a while.
    pub fn pass_over(&mut self, now_ns: u64) {
        self.pause_ns = (self.pause_ns * 2).clamp(PAUSE_NS, PAUSE_LONGEST_NS);
        self.passed_until_ns = now_ns + self.pause_ns;
        self.passed += 1;
    }

    /// Connections in its queue, as far as is known.
    pub fn untaken(&self) -> u64 {
        self.untaken
    }

    /// Whether it has left something in its queue for so long.
    pub fn is_overdue(&self, now_ns: u64, deadline_ns: u64) -> bool {
        self.untaken > 0 && now_ns >= self.waiting_since_ns + deadline_ns
    }

    /// Whether it is passed over now.
    pub fn is_passed_over(&self, now_ns: u64) -> bool {
        now_ns < self.passed_until_ns
    }
}
