//! Which positions are given out, filled, durable and still wanted: the numbers of a running log.
//!
//! ```text
//! begin <= durable <= sealed <= tail          positions
//!   |          |         |        |
//!   |          |         |        +-- the next reservation begins here
//!   |          |         +-- before it every entry is complete, and may be written
//!   |          +-- before it every entry is acknowledged
//!   +-- before it nothing is wanted; the header on the device may still say less
//! ```

use std::collections::VecDeque;

use crate::area::Layout;
use crate::error::LogError;
use crate::format::{entry_bytes, Header, Marks, Position, POSITION_MAX};

/// Reservations that may be open at once.
pub(crate) const RESERVATIONS_MAX: usize = 4096;

/// The numbers, which threads change under one lock.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) layout: Layout,
    pub(crate) window_bytes: u64,
    pub(crate) begin: Position,
    pub(crate) marks: Marks,
    pub(crate) durable: Position,
    pub(crate) sealed: Position,
    pub(crate) tail: Position,
    /// Positions up to here may be written, by what the header on the device says.
    pub(crate) writable: u64,
    /// Number of the batch that the next sealed entry goes into.
    pub(crate) next_batch: u64,
    pub(crate) is_closed: bool,
    /// Reservations from `sealed` on: where each ends, and whether it is complete.
    open: VecDeque<(Position, bool)>,
    /// Reservations before those.
    finished: u64,
}

/// Room for one entry, for whoever asked for it.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) position: Position,
    number: u64,
}

/// Why there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// It comes when something becomes durable.
    Later,
    /// It comes when the header says that what was trimmed is not wanted.
    AfterHeader,
    /// Not without the caller's doing.
    Never(LogError),
}

impl Space {
    pub(crate) fn new(layout: Layout, header: &Header) -> Space {
        Space {
            layout,
            window_bytes: header.window_bytes,
            begin: header.begin,
            marks: header.marks,
            durable: header.end,
            sealed: header.end,
            tail: header.end,
            writable: layout.limit(header.begin),
            next_batch: 0,
            is_closed: false,
            open: VecDeque::new(),
            finished: 0,
        }
    }

    /// Gives out room for a payload.
    pub(crate) fn reserve(&mut self, payload: u64, reuses: bool) -> Result<Room, NoRoom> {
        if self.is_closed {
            return Err(NoRoom::Never(LogError::Closed));
        }
        if self.open.len() >= RESERVATIONS_MAX {
            return Err(NoRoom::Never(LogError::Reservations { limit: RESERVATIONS_MAX }));
        }
        let wanted = entry_bytes(payload);
        let end = self.layout.ceil(self.tail.at + wanted);
        if end >= POSITION_MAX {
            return Err(NoRoom::Never(LogError::WornOut));
        }
        let limit = self.layout.limit(self.begin);
        if end > limit {
            let (free, limit) = (limit.saturating_sub(self.tail.at), self.layout.data_bytes);
            return Err(NoRoom::Never(LogError::Full { wanted, free, limit }));
        }
        if end > self.writable && !reuses {
            return Err(NoRoom::AfterHeader);
        }
        if end > self.window_end() {
            return Err(NoRoom::Later);
        }
        Ok(self.take(wanted))
    }

    /// Says that an entry is complete; whether entries may be written that could not before.
    pub(crate) fn seal(&mut self, room: &Room) -> bool {
        let at = room.number.wrapping_sub(self.finished) as usize;
        if let Some((_, is_complete)) = self.open.get_mut(at) {
            *is_complete = true;
        }
        let before = self.sealed;
        while let Some((end, true)) = self.open.front() {
            self.sealed = *end;
            self.open.pop_front();
            self.finished += 1;
        }
        self.sealed != before
    }

    /// Room for a filler up to the end of the sector, or of the next one where a header does not
    /// fit; only right behind complete entries.
    pub(crate) fn reserve_filler(&mut self) -> Option<(Room, u64)> {
        let gap = self.layout.ceil(self.tail.at) - self.tail.at;
        let bytes = if gap < entry_bytes(0) { gap + self.layout.sector } else { gap };
        let end = self.tail.at + bytes;
        let fits = end <= self.writable && end <= self.window_end();
        let is_wanted = gap > 0 && self.sealed == self.tail && fits;
        is_wanted.then(|| (self.take(bytes), bytes))
    }

    fn take(&mut self, bytes: u64) -> Room {
        let room = Room { position: self.tail, number: self.finished + self.open.len() as u64 };
        self.tail.at += bytes;
        self.tail.sequence += 1;
        self.open.push_back((self.tail, false));
        room
    }

    fn window_end(&self) -> u64 {
        self.layout.floor(self.durable.at) + self.window_bytes
    }
}
