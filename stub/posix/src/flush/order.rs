//! Tickets in their order, and what each waits for. Numbers only.
//!
//! ```text
//! done | pending, oldest first ............ | issued
//!        a flush of files, or a place in the log
//! ```
//! A ticket is done when all before it are: what the program has let out waits for the newest that had
//! been issued. So a flush may always join one that is pending and has not begun.

/// Tickets that may be pending; more share the newest one of the log.
const PENDING_MAX: usize = 32;
/// Of them, kept free for flushes of files, of which two at most are pending.
const FOR_FILES: usize = 2;

/// What a ticket waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The flush of files with this number.
    Files(u64),
    /// Everything before this position of the log.
    Log(u64),
}

#[derive(Clone, Copy)]
struct Pending {
    ticket: u64,
    wait: Wait,
    /// In tests, when the device answers at the earliest.
    not_before: u64,
}

/// The tickets.
pub struct Order {
    pending: [Pending; PENDING_MAX],
    used: usize,
    issued: u64,
}

impl Order {
    /// None was issued.
    pub const fn new() -> Self {
        let none = Pending { ticket: 0, wait: Wait::Files(0), not_before: 0 };
        Self { pending: [none; PENDING_MAX], used: 0, issued: 0 }
    }

    /// Issues a ticket, or joins one that is pending; returns the newest one.
    pub fn issue(&mut self, wait: Wait, not_before: u64) -> u64 {
        let is_tight = self.used + FOR_FILES >= PENDING_MAX;
        let pending = self.pending[..self.used].iter_mut().rev();
        let joined = match wait {
            Wait::Files(_) => pending.into_iter().find(|it| it.wait == wait),
            Wait::Log(_) => pending.into_iter().find(|it| is_tight && it.is_logged()),
        };
        if let Some(known) = joined {
            (known.wait, known.not_before) = (wait, known.not_before.max(not_before));
            return self.issued;
        }
        self.issued += 1;
        if let Some(place) = self.pending.get_mut(self.used) {
            *place = Pending { ticket: self.issued, wait, not_before };
            self.used += 1;
        }
        self.issued
    }

    /// Takes off what has ended: flushes of files, and the log, up to these; returns the newest
    /// ticket that is done.
    pub fn land(&mut self, files: u64, log: u64, now: u64) -> u64 {
        let is_ended = |it: &&Pending| {
            let has_answered = match it.wait {
                Wait::Files(number) => number <= files,
                Wait::Log(end) => end <= log,
            };
            has_answered && it.not_before <= now
        };
        let ended = self.pending[..self.used].iter().take_while(is_ended).count();
        self.pending.copy_within(ended..self.used, 0);
        self.used -= ended;
        self.issued - self.used as u64
    }

    /// The ticket that waits for a flush of files.
    pub fn ticket_of(&self, files: u64) -> Option<u64> {
        let known = self.pending[..self.used].iter().find(|it| it.wait == Wait::Files(files));
        known.map(|it| it.ticket)
    }

    /// The log has failed: what waits for it waits for a flush of files instead.
    pub fn leave_log(&mut self, files: u64) {
        let logged = self.pending[..self.used].iter_mut().filter(|it| it.is_logged());
        logged.for_each(|it| it.wait = Wait::Files(files));
    }

    /// Whether some ticket waits for the log.
    pub fn is_logged(&self) -> bool {
        self.pending[..self.used].iter().any(Pending::is_logged)
    }

    /// In tests, when the next answer comes at the earliest; `u64::MAX` where none is awaited.
    #[cfg(feature = "flush-faults")]
    pub fn answers_at(&self) -> u64 {
        let logged = self.pending[..self.used].iter().find(|it| it.is_logged());
        logged.map_or(u64::MAX, |it| it.not_before)
    }

    /// Whether none is pending.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Forgets what is pending, as if it were done.
    pub fn forget(&mut self) -> u64 {
        self.used = 0;
        self.issued
    }
}

impl Pending {
    fn is_logged(&self) -> bool {
        matches!(self.wait, Wait::Log(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_done_when_all_before_it_are() {
        let mut order = Order::new();
        assert_eq!(order.issue(Wait::Files(1), 0), 1);
        assert_eq!(order.issue(Wait::Log(100), 0), 2);
        assert_eq!(order.issue(Wait::Files(2), 0), 3);
        assert_eq!(order.issue(Wait::Log(200), 0), 4);
        assert_eq!(order.issue(Wait::Files(2), 0), 4, "joins the flush that has not begun");
        assert_eq!(order.land(0, 150, 0), 0);
        assert_eq!((order.land(1, 150, 0), order.ticket_of(2)), (2, Some(3)));
        assert_eq!(order.land(2, 150, 0), 3);
        assert_eq!((order.land(2, 200, 0), order.is_empty()), (4, true));
    }

    #[test]
    fn more_than_there_is_room_for_share_the_newest_and_files_still_find_room() {
        let mut order = Order::new();
        let tickets: Vec<u64> = (1..=100).map(|end| order.issue(Wait::Log(end), 0)).collect();
        let separate = (PENDING_MAX - FOR_FILES) as u64;
        assert_eq!(tickets.last(), Some(&separate));
        assert_eq!(order.issue(Wait::Files(1), 0), separate + 1);
        assert_eq!(order.land(0, 99, 0), separate - 1);
        assert_eq!(order.land(0, 100, 0), separate);
        assert_eq!(order.land(1, 100, 0), separate + 1);
    }

    #[test]
    fn a_log_that_fails_leaves_its_tickets_to_a_flush_of_files() {
        let mut order = Order::new();
        order.issue(Wait::Log(10), 0);
        order.issue(Wait::Log(20), 5);
        order.leave_log(7);
        assert_eq!((order.land(6, 1000, 9), order.is_logged()), (0, false));
        assert_eq!(order.land(7, 0, 4), 1, "the second answers later");
        assert_eq!(order.land(7, 0, 5), 2);
    }
}
