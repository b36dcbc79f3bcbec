//! The order in which a set's ready descriptors are told: that in which they became ready.
//!
//! As in the kernel, whose list of ready descriptors this follows (source: fs/eventpoll.c): what
//! becomes ready joins at the end; what was told level-triggered joins again at the end, and stays
//! there until a wait comes to it and finds it not ready; where there is no room for all, those at
//! the front are told, and the others keep their places. Here a place is a time, in cycles: of the
//! publication that made a stream ready, or of the telling. One that only the kernel reports became
//! ready after the kernel was asked last, and after the stream whose bell it told before it.

use libc::epoll_event;

/// A stream that is ready: found by a look, told if there is room.
#[derive(Clone, Copy)]
pub struct Ready {
    /// When it became ready.
    pub since: u64,
    /// Its interest's place.
    pub place: u32,
    /// What is to be told.
    pub events: u32,
    /// The lane's tail when it was looked at.
    pub tail: u64,
}

/// What one wait has found. Kept with its set, so that nothing is allocated in a wait.
pub struct Found {
    /// Ready streams.
    pub direct: Vec<Ready>,
    /// Events of the kernel, in its order, with the times that they are given. All must be told: the
    /// kernel holds them to be.
    pub native: Vec<(u64, epoll_event)>,
    /// Places of streams that have their places in the order and were found not ready.
    pub idle: Vec<u32>,
}

impl Default for Found {
    fn default() -> Self {
        Self::new()
    }
}

impl Found {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { direct: Vec::new(), native: Vec::new(), idle: Vec::new() }
    }

    /// Puts the ready streams into their order, and says whether they were out of it.
    pub fn sort(&mut self) -> bool {
        let is_sorted = self.direct.windows(2).all(|pair| pair[0].since <= pair[1].since);
        if !is_sorted {
            self.direct.sort_unstable_by_key(|ready| (ready.since, ready.place));
        }
        !is_sorted
    }

    /// Streams that became ready before a time at which the kernel had nothing: they go before all
    /// that the kernel has now. In order already.
    pub fn count_before(&self, time: u64) -> usize {
        self.direct.partition_point(|ready| ready.since <= time)
    }

    /// Puts what there is room for, in order; `tell` gives a stream's event. The count of all.
    #[inline]
    pub fn merge(
        &self,
        room: usize,
        mut put: impl FnMut(usize, epoll_event),
        mut tell: impl FnMut(&Ready, usize) -> epoll_event,
    ) -> usize {
        if self.native.is_empty() {
            // By far the commonest.
            let streams = self.direct.iter().take(room).enumerate();
            return streams.map(|(at, ready)| put(at, tell(ready, at))).count();
        }
        let streams = room - self.native.len().min(room);
        let mut direct = self.direct.iter().take(streams).peekable();
        let mut native = self.native.iter().peekable();
        for count in 0..room {
            let is_native_first = match (direct.peek(), native.peek()) {
                (None, None) => return count,
                (Some(ready), Some((time, _))) => time < &ready.since,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            let event = match is_native_first {
                true => native.next().map(|(_, event)| *event),
                false => direct.next().map(|ready| tell(ready, count)),
            };
            if let Some(event) = event {
                put(count, event);
            }
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(direct: &[u64], native: &[u64]) -> Found {
        let ready = |(place, since): (usize, &u64)| Ready {
            since: *since,
            place: place as u32,
            events: 1,
            tail: 0,
        };
        let mut found = Found::new();
        found.direct = direct.iter().enumerate().map(ready).collect();
        found.native = native
            .iter()
            .map(|time| (*time, epoll_event { events: 1, u64: 1000 + time }))
            .collect();
        found.sort();
        found
    }

    fn told(found: &Found, room: usize) -> Vec<u64> {
        let mut out = Vec::new();
        let tell = |ready: &Ready, _| epoll_event { events: ready.events, u64: ready.since };
        let put = |at, event: epoll_event| {
            assert_eq!(at, out.len());
            out.push(event.u64);
        };
        assert_eq!(found.merge(room, put, tell), out.len());
        out
    }

    #[test]
    fn streams_and_kernel_events_are_told_by_time() {
        let found = found(&[30, 10, 20], &[15, 25]);
        assert_eq!(told(&found, 9), [10, 1015, 20, 1025, 30]);
        assert_eq!(found.count_before(20), 2);
    }

    #[test]
    fn where_room_is_short_every_kernel_event_is_told_and_the_first_streams() {
        let found = found(&[30, 10, 20], &[15, 25]);
        assert_eq!(told(&found, 3), [10, 1015, 1025]);
        assert_eq!(told(&found, 2), [1015, 1025]);
    }
}
