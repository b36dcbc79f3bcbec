//! A loop's rounds: what each connection is to move, all of it moved at once, and who becomes cold.

use heliostat_backend_tcp::{Direction, Mover};

use super::Carrier;
use crate::connection::{Plan, Turn};

/// What a session may move in one round, after which others are served.
pub(super) const SESSION_BYTES: usize = 1 << 20;
/// A transfer is counted by the room that it is given, of which so much is used in the mean at most.
const SHARE_OF_ASKED: usize = 4;
/// A warm connection that has moved nothing for so long becomes cold.
const WARM_NS: u64 = 200_000;

impl Carrier {
    /// A turn for each warm connection; true when something was moved, or ended.
    pub(super) fn round(&mut self, mover: &mut Mover, now_ns: u64) -> bool {
        self.moved.clear();
        let count = self.warm.len();
        self.first = if count == 0 { 0 } else { (self.first + 1) % count };
        let from_first = self.warm.iter().cycle().skip(self.first).take(count);
        let places: Vec<u32> = from_first.copied().collect();
        let mut has_moved = false;
        let mut cold = Vec::new();
        for place in places {
            match self.plan(place) {
                Some(Plan::Ends(how)) => {
                    has_moved = true;
                    self.end(place, how);
                }
                Some(Plan::Nothing) if self.becomes_cold(place, now_ns) => cold.push(place),
                _ => {}
            }
        }
        has_moved |= self.move_all(mover, now_ns);
        self.cool(&cold);
        has_moved
    }

    /// What a connection's turn is to do; what it is to move is noted. Nothing where its session has had
    /// enough in this round.
    fn plan(&mut self, place: u32) -> Option<Plan> {
        let connection = self.connections.get(place as usize)?.as_ref()?;
        let channel = self.channels.get(connection.channel as usize)?.as_ref()?;
        let session = channel.session;
        if self.moved.get(&session).is_some_and(|moved| *moved >= SESSION_BYTES) {
            return None;
        }
        if channel.is_closed(connection.slot) {
            self.is_gone(place); // nothing is received for it any more
        }
        let connection = self.connections.get_mut(place as usize)?.as_mut()?;
        let plan = connection.plan();
        let Plan::Moves { receives, sends } = plan else { return Some(plan) };
        if !connection.begin_turn() {
            return Some(Plan::Ends(Turn::WantedBack));
        }
        let both = [(receives, Direction::Receive), (sends, Direction::Send)];
        let wanted = both.iter().filter(|(is_asked, _)| *is_asked);
        let transfers: Result<Vec<_>, _> =
            wanted.map(|(_, direction)| connection.transfer(*direction)).collect();
        // All or none: a socket that is closed now is in no list.
        let Ok(transfers) = transfers else {
            connection.end_turn();
            return Some(Plan::Ends(Turn::Corrupt));
        };
        for transfer in transfers {
            *self.moved.entry(session).or_insert(0) += transfer.pieces.bytes() / SHARE_OF_ASKED;
            self.asked.push((place, transfer.direction));
            self.transfers.push(transfer);
        }
        Some(plan)
    }

    /// Makes the transfers of a round; true when one has moved something.
    fn move_all(&mut self, mover: &mut Mover, now_ns: u64) -> bool {
        mover.make(&self.transfers, &mut self.answers);
        self.transfers.clear();
        let asked = std::mem::take(&mut self.asked);
        let answers = std::mem::take(&mut self.answers);
        let mut has_moved = false;
        for (at, ((place, direction), answer)) in asked.iter().zip(&answers).enumerate() {
            // It may have ended by the other direction's answer.
            let found = self.connections.get_mut(*place as usize);
            let Some(connection) = found.and_then(Option::as_mut) else { continue };
            let turn = connection.moved(*direction, *answer, &self.counts);
            // Both directions of a connection stand beside each other.
            let is_over = !matches!(turn, Turn::Moved(_) | Turn::Idle);
            if !is_over && asked.get(at + 1).is_none_or(|(next, _)| next != place) {
                connection.end_turn();
            }
            match turn {
                Turn::Moved(_) => {
                    connection.moved_at_ns = now_ns;
                    if *direction == Direction::Send {
                        connection.waits_since_ns = now_ns;
                    }
                    has_moved = true;
                }
                Turn::Idle => {}
                ended => self.end(*place, ended),
            }
        }
        (self.asked, self.answers) = (asked, answers);
        self.asked.clear();
        has_moved
    }

    fn becomes_cold(&mut self, place: u32, now_ns: u64) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(place as usize) else { return false };
        now_ns.saturating_sub(connection.moved_at_ns) > WARM_NS && connection.lie_down()
    }

    /// These are looked at no more until somebody rings.
    fn cool(&mut self, cold: &[u32]) {
        for place in cold {
            if let Some(Some(connection)) = self.connections.get_mut(*place as usize) {
                connection.is_warm = false;
            }
        }
        let connections = &self.connections;
        let is_warm = |place: &u32| {
            connections.get(*place as usize).and_then(Option::as_ref).is_some_and(|it| it.is_warm)
        };
        self.warm.retain(is_warm);
    }

    /// Every warm connection becomes cold; false when one has something to do.
    pub(super) fn lie_down(&mut self) -> bool {
        let mut cold = Vec::new();
        for place in self.warm.clone() {
            let Some(Some(connection)) = self.connections.get_mut(place as usize) else { continue };
            if !connection.lie_down() {
                self.cool(&cold);
                return false;
            }
            cold.push(place);
        }
        self.cool(&cold);
        true
    }
}
