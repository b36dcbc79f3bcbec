//! Whose turn it is at the device, and which operations wait until their area's rate lets them pass.
//!
//! ```text
//! join -> a queue for each session, in turn by bytes (Fair) -> begun, or held until a time -> queue
//! ```

use std::collections::VecDeque;

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::Fair;

/// The operations that have parts to begin. A session is meant by the index of its seat.
#[derive(Default)]
pub struct Line {
    queues: Vec<VecDeque<ObjectId>>,
    fair: Fair,
    /// Who has the turn, and what is left of it: it goes on when the device has room again.
    turn: Option<(u32, i64)>,
    held: Vec<Held>,
}

/// An operation that its area's rate holds.
struct Held {
    until_ns: u64,
    seat: u32,
    job: ObjectId,
}

impl Line {
    /// An operation waits for its turn.
    pub fn join(&mut self, seat: u32, job: ObjectId) {
        let place = seat as usize;
        if self.queues.len() <= place {
            self.queues.resize_with(place + 1, VecDeque::new);
        }
        self.queues[place].push_back(job);
        self.fair.join(seat);
    }

    /// The operation whose turn it is.
    pub fn front(&mut self) -> Option<ObjectId> {
        loop {
            let (seat, left) = match self.turn.take() {
                Some(turn) => turn,
                None => self.fair.begin()?,
            };
            let next = self.queues.get(seat as usize).and_then(VecDeque::front);
            match next {
                None => self.fair.end(seat, left, false),
                // Debts are forgiven when everybody has some, so that somebody's turn comes.
                Some(_) if left <= 0 => self.fair.end(seat, left, true),
                Some(job) => {
                    self.turn = Some((seat, left));
                    return Some(*job);
                }
            }
        }
    }

    /// It has cost so much of its session's turn.
    pub fn spend(&mut self, cost: i64) {
        if let Some((_, left)) = &mut self.turn {
            *left -= cost;
        }
    }

    /// It has no part to begin any more.
    pub fn pop(&mut self) {
        if let Some((seat, _)) = self.turn {
            self.queues.get_mut(seat as usize).and_then(VecDeque::pop_front);
        }
    }

    /// It may not begin before then.
    pub fn hold(&mut self, until_ns: u64) {
        let Some((seat, _)) = self.turn else { return };
        if let Some(job) = self.queues.get_mut(seat as usize).and_then(VecDeque::pop_front) {
            self.held.push(Held { until_ns, seat, job });
        }
    }

    /// Those whose time has come join again, the first the first.
    pub fn release(&mut self, now_ns: u64) {
        if self.next_ns().is_none_or(|next| next > now_ns) {
            return;
        }
        let (due, held): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|it| it.until_ns <= now_ns);
        self.held = held;
        due.into_iter().for_each(|Held { seat, job, .. }| self.join(seat, job));
    }

    /// When the first that is held may go on.
    pub fn next_ns(&self) -> Option<u64> {
        self.held.iter().map(|held| held.until_ns).min()
    }

    /// Whether nothing waits for its turn.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// An operation begins nothing more.
    pub fn remove(&mut self, seat: u32, job: ObjectId) {
        if let Some(queue) = self.queues.get_mut(seat as usize) {
            queue.retain(|other| *other != job);
        }
        self.held.retain(|held| held.job != job);
    }

    /// A session has ended, whose operations were removed.
    pub fn leave(&mut self, seat: u32) {
        self.fair.leave(seat);
        self.turn = self.turn.filter(|(its, _)| *its != seat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_server_loop::COST_MIN;

    fn job(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    #[test]
    fn sessions_that_want_more_get_equal_bytes_and_one_part_at_least() {
        let (mut line, mut spent) = (Line::default(), [0i64; 2]);
        line.join(0, job(0));
        line.join(1, job(1));
        while spent.iter().sum::<i64>() < 100 << 20 {
            let front = line.front().unwrap();
            let cost = if front == job(0) { 1 << 18 } else { COST_MIN };
            line.spend(cost);
            spent[front.index as usize] += cost;
        }
        assert!((spent[0] - spent[1]).abs() <= 1 << 19, "{spent:?}");
    }

    #[test]
    fn what_is_held_comes_back_in_its_time_and_others_pass() {
        let mut line = Line::default();
        line.join(3, job(1));
        line.join(3, job(2));
        assert_eq!(line.front(), Some(job(1)));
        line.hold(100);
        assert_eq!((line.front(), line.next_ns()), (Some(job(2)), Some(100)));
        line.pop();
        assert_eq!(line.front(), None);
        line.release(99);
        assert!(line.is_empty());
        line.release(100);
        assert_eq!((line.front(), line.next_ns()), (Some(job(1)), None));
    }

    #[test]
    fn who_has_left_has_no_turn() {
        let mut line = Line::default();
        line.join(0, job(1));
        line.join(1, job(2));
        assert_eq!(line.front(), Some(job(1)));
        line.remove(0, job(1));
        line.leave(0);
        assert_eq!(line.front(), Some(job(2)));
        line.remove(1, job(2));
        assert_eq!(line.front(), None);
    }
}
