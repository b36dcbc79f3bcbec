//! Room for answers that clients have not read, and who is ended to make some.
//!
//! Such an answer lies in its client's socket with what it brings: the kernel lets one user's
//! processes have only so many descriptors on their way, the control plane's own user as any other,
//! and a text is memory. So they count against the client's share. Who asks again and again without
//! reading is ended; where a user's programs together leave too many unread, the one that has left
//! its answers for longest is.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_grant::Holder;

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::kernel;
use crate::refused::{full, Refused};
use crate::state::connection::Connection;
use crate::state::unread::Backlog;

/// Descriptors that may wait in one connection: two answers of the largest kind. A client has one
/// request under way, so its next one says that it has read the answer before.
const UNREAD_PER_CONNECTION: u64 = 32;
/// Why such a client is ended.
const WHY: &str = "it does not read its answers";

/// Whether an answer may be sent.
pub enum Room {
    /// It may.
    Made,
    /// Its client has been ended instead.
    Ended,
}

impl Daemon {
    /// Makes sure before a request is served that its answer, which may bring so many descriptors,
    /// may be left unread.
    pub(crate) fn make_room(&mut self, id: ObjectId, descriptors: u64) -> Result<Room, Refused> {
        let Some(holder) = self.connections.holder(id) else { return Ok(Room::Ended) };
        if descriptors == 0 {
            return Ok(Room::Made);
        }
        let left = self.settle(id).map_or(0, |backlog| backlog.descriptors);
        if left + descriptors > UNREAD_PER_CONNECTION {
            self.end_deaf(id);
        }
        while self.connections.get(id).is_some() {
            let Err(exceeded) = self.unread.check(holder, descriptors) else {
                return Ok(Room::Made);
            };
            if !self.relieve(holder, exceeded.side) {
                return Err(full(Thing::Unread, exceeded));
            }
        }
        Ok(Room::Ended)
    }

    /// Counts an answer that is being sent.
    pub(crate) fn count_unread(&mut self, id: ObjectId, answer: &Answer) {
        let Some(holder) = self.connections.holder(id) else { return };
        let Some(connection) = self.connections.get_mut(id) else { return };
        let bytes = match answer.reply {
            Reply::Text { bytes } => bytes,
            _ => 0,
        };
        let more =
            Backlog { descriptors: answer.fds.len() as u64, bytes, since_ns: monotonic_ns() };
        if more.descriptors > 0 {
            connection.unread.add(more);
            self.unread.take(holder, more);
        }
    }

    /// Makes room in somebody's share: what was read meanwhile does not count any more; where all
    /// was left unread, whoever left it for longest is ended. False when there was nothing.
    fn relieve(&mut self, holder: Holder, side: Side) -> bool {
        let is_of_share = |other: Holder| {
            other.uid == holder.uid
                && (side != Side::SealedProgram || other.sealed == holder.sealed)
        };
        let waits = |(id, connection): (ObjectId, &Connection)| {
            let counts = self.connections.holder(id).is_some_and(is_of_share);
            (counts && connection.unread.descriptors > 0)
                .then_some((connection.unread.since_ns, id))
        };
        let mut waiting: Vec<_> = self.connections.iter().filter_map(waits).collect();
        waiting.sort_unstable();
        let before = waiting.len();
        waiting.retain(|(_, id)| self.settle(*id).is_some_and(|left| left.descriptors > 0));
        match waiting.first() {
            _ if waiting.len() < before => true,
            Some((_, oldest)) => {
                self.end_deaf(*oldest);
                true
            }
            None => false,
        }
    }

    /// What waits in a connection; nothing as soon as all of it was read.
    fn settle(&mut self, id: ObjectId) -> Option<Backlog> {
        let holder = self.connections.holder(id)?;
        let connection = self.connections.get_mut(id)?;
        if connection.unread.descriptors > 0 && kernel::is_all_read(&connection.socket) {
            self.unread.give_back(holder, std::mem::take(&mut connection.unread));
        }
        Some(connection.unread)
    }

    /// Ends a client that does not read.
    pub(crate) fn end_deaf(&mut self, id: ObjectId) {
        let Some(holder) = self.connections.holder(id) else { return };
        self.counts.unread += 1;
        self.denials.note_ended(holder.uid, WHY);
        self.end_connection(id, WHY);
    }
}
