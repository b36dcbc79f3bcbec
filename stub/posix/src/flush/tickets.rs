//! Bytes of one connection that wait for flushes, in order.

/// What a connection has written and not published, by ticket. Of more than two tickets the later ones
/// wait for the last: a connection seldom says more before it has been answered.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unflushed {
    first: Waiting,
    second: Waiting,
    /// The connection is known to have something to publish.
    pub is_listed: bool,
}

/// Bytes that wait for one ticket.
#[derive(Clone, Copy, Default, Debug)]
pub struct Waiting {
    /// For which.
    pub ticket: u64,
    /// How many.
    pub bytes: u64,
}

impl Unflushed {
    /// Nothing.
    pub const fn new() -> Self {
        let none = Waiting { ticket: 0, bytes: 0 };
        Self { first: none, second: none, is_listed: false }
    }

    /// So many more, written after this ticket was issued.
    pub fn add(&mut self, ticket: u64, bytes: u64) {
        let part = match self.first.bytes == 0 || self.first.ticket == ticket {
            true => &mut self.first,
            false => &mut self.second,
        };
        (part.ticket, part.bytes) = (ticket, part.bytes + bytes);
    }

    /// The next of those whose flush has ended.
    pub fn take_due(&mut self, done: u64) -> Option<Waiting> {
        let due = self.first;
        if due.bytes == 0 || due.ticket > done {
            return None;
        }
        (self.first, self.second) = (self.second, Waiting::default());
        Some(due)
    }

    /// They are never published.
    pub fn forget(&mut self) {
        (self.first, self.second) = (Waiting::default(), Waiting::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_tickets_the_later_bytes_wait_for_the_last() {
        let mut unflushed = Unflushed::new();
        (1..=4).for_each(|ticket| unflushed.add(ticket, ticket));
        assert_eq!(unflushed.take_due(3).map(|due| due.bytes), Some(1));
        assert!(unflushed.take_due(3).is_none());
        assert_eq!(unflushed.take_due(4).map(|due| (due.ticket, due.bytes)), Some((4, 9)));
    }

    #[test]
    fn what_waits_is_due_by_its_ticket_and_in_order() {
        let mut unflushed = Unflushed::new();
        for (ticket, bytes) in [(4, 10), (4, 5), (5, 7), (5, 1)] {
            unflushed.add(ticket, bytes);
        }
        assert!(unflushed.take_due(3).is_none());
        let due = unflushed.take_due(4).expect("the first");
        assert_eq!((due.ticket, due.bytes), (4, 15));
        assert!(unflushed.take_due(4).is_none());
        unflushed.add(6, 2);
        let due = unflushed.take_due(6).expect("the second");
        assert_eq!((due.ticket, due.bytes), (5, 8));
        assert_eq!(unflushed.take_due(6).map(|due| due.bytes), Some(2));
        assert!(unflushed.take_due(u64::MAX).is_none());
    }
}
