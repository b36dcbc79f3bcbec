//! Who is let in to a region or a queue, by handles that are never used again.
//!
//! A seat is free for the next one as soon as its consumer is known to be gone, and the word of
//! that may come twice: by the consumer's bell, and later by the control plane. So whoever names a
//! consumer names it by its handle, which tells the one who had the seat from the one who has it.

use heliostat_abi::snapshot::memory::CONSUMERS_MAX;

/// One consumer that was let in. A region or a queue uses none of its handles a second time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConsumerHandle(u64);

/// Bits of a handle that are the seat.
const SEAT_BITS: u32 = 16;
/// Seats for those that come by name: more than the control plane lets in, so that the order in
/// which it tells of comings and goings does not matter.
const NAMED_MAX: usize = (1 << SEAT_BITS) - CONSUMERS_MAX;

impl ConsumerHandle {
    /// Never 0, and different for every consumer of a region or queue.
    pub(super) fn number(self) -> u64 {
        self.0
    }

    fn seat(self) -> usize {
        (self.0 & ((1 << SEAT_BITS) - 1)) as usize
    }
}

/// How a consumer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// The producer's program let it in.
    Admitted,
    /// By name: the control plane has told it that it is attached.
    ByName,
}

struct Guest<T> {
    handle: ConsumerHandle,
    admission: Admission,
    page: T,
}

/// The consumers of a region or a queue, with what the producer has of each.
///
/// `CONSUMERS_MAX` are let in by the producer's program. The control plane limits those that come
/// by name, and has promised each its seat: others do not take it away.
pub(super) struct Guests<T> {
    seats: Vec<Option<Guest<T>>>,
    /// How many were ever let in: 2^48 take longer than any machine runs.
    let_in: u64,
}

impl<T> Default for Guests<T> {
    fn default() -> Self {
        Self { seats: Vec::new(), let_in: 0 }
    }
}

impl<T> Guests<T> {
    /// True when no further consumer of this admission has a seat.
    pub(super) fn is_full(&self, admission: Admission) -> bool {
        let limit = if admission == Admission::ByName { NAMED_MAX } else { CONSUMERS_MAX };
        self.seats.iter().flatten().filter(|guest| guest.admission == admission).count() >= limit
    }

    /// A seat for a consumer; `None` when all of its admission are taken.
    pub(super) fn seat(&mut self, admission: Admission, page: T) -> Option<ConsumerHandle> {
        if self.is_full(admission) {
            return None;
        }
        let free = self.seats.iter().position(Option::is_none);
        let seat = free.unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        self.let_in += 1;
        let handle = ConsumerHandle(self.let_in << SEAT_BITS | seat as u64);
        self.seats[seat] = Some(Guest { handle, admission, page });
        Some(handle)
    }

    /// Forgets a consumer; nothing happens for one that is forgotten already.
    pub(super) fn dismiss(&mut self, handle: ConsumerHandle) {
        let seat = self.seats.get_mut(handle.seat());
        if let Some(seat) = seat.filter(|seat| is_of(seat, handle)) {
            *seat = None;
        }
    }

    /// Forgets those of an admission that are `ended`.
    pub(super) fn dismiss_if(&mut self, admission: Admission, ended: impl Fn(&T) -> bool) {
        let has_ended = |guest: &Guest<T>| guest.admission == admission && ended(&guest.page);
        for seat in &mut self.seats {
            if seat.as_ref().is_some_and(has_ended) {
                *seat = None;
            }
        }
    }

    /// What there is of a consumer that is still here.
    pub(super) fn get(&self, handle: ConsumerHandle) -> Option<&T> {
        let seat = self.seats.get(handle.seat()).filter(|seat| is_of(seat, handle));
        seat?.as_ref().map(|guest| &guest.page)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, handle: ConsumerHandle) -> Option<&mut T> {
        let seat = self.seats.get_mut(handle.seat()).filter(|seat| is_of(seat, handle));
        seat?.as_mut().map(|guest| &mut guest.page)
    }

    /// All who are here.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConsumerHandle, &T)> + Clone {
        self.seats.iter().flatten().map(|guest| (guest.handle, &guest.page))
    }

    /// What there is of all who are here.
    pub(super) fn pages(&self) -> impl Iterator<Item = &T> + Clone {
        self.seats.iter().flatten().map(|guest| &guest.page)
    }

    /// The same, to be changed.
    pub(super) fn pages_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.seats.iter_mut().flatten().map(|guest| &mut guest.page)
    }
}

fn is_of<T>(seat: &Option<Guest<T>>, handle: ConsumerHandle) -> bool {
    seat.as_ref().is_some_and(|guest| guest.handle == handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_stands_for_one_consumer_and_for_nobody_who_comes_later() {
        let mut guests = Guests::default();
        let first = guests.seat(Admission::Admitted, "first").unwrap();
        guests.dismiss(first);
        let second = guests.seat(Admission::ByName, "second").unwrap();
        assert_eq!((first.seat(), guests.get(first)), (second.seat(), None));
        guests.dismiss(first);
        assert_eq!(guests.get(second), Some(&"second"));
        guests.dismiss(second);
        assert!(guests.pages().next().is_none());
    }

    #[test]
    fn who_comes_one_way_takes_no_seat_from_who_comes_the_other() {
        let mut guests = Guests::default();
        for _ in 0..CONSUMERS_MAX {
            assert!(guests.seat(Admission::Admitted, ()).is_some());
        }
        assert_eq!(guests.seat(Admission::Admitted, ()), None);
        for _ in 0..2 * CONSUMERS_MAX {
            assert!(guests.seat(Admission::ByName, ()).is_some());
        }
        assert_eq!(guests.seat(Admission::Admitted, ()), None);
    }
}
