//! A connection is given to a worker; while no worker has room, nothing more is accepted.

use heliostat_abi::listener::{Handed, Rule};
use heliostat_abi::name::ObjectId;
use heliostat_service_listener::{address_bytes, Key, Standing, QUEUE_MAX};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use tracing::debug;

use crate::closing::Foreign;
use crate::state::{State, QUEUES};

/// After the first connection of a worker its open ones are counted so much later.
pub const AUDIT_NS: u64 = 100_000_000;
/// After a failure that has to do with the whole machine nothing is accepted for so long.
pub const PAUSE_NS: u64 = 100_000_000;

impl State {
    /// Gives a connection to the worker that the rule names, or keeps it until one has room.
    pub fn hand(&mut self, handed: Handed, fd: Foreign, key: Key<'_>, now_ns: u64) {
        let by_address = address_bytes(handed.peer);
        let key = match self.listener.balance.rule() {
            Rule::Address => Key::Bytes(&by_address),
            _ => key,
        };
        loop {
            let listener = &mut self.listener;
            listener.refresh(now_ns);
            let Some(chosen) = listener.balance.choose(key, now_ns) else {
                listener.held.unplaced.push_back((handed, fd));
                return;
            };
            let Some(worker) = listener.workers.get_mut(&chosen) else {
                listener.balance.remove(chosen);
                continue;
            };
            match worker.queue.put(&handed, &fd) {
                Ok(()) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    debug!(worker = %chosen, "its queue takes nothing more");
                    self.drain(chosen);
                    continue;
                }
                Err(error) => {
                    debug!(worker = %chosen, %error, "a connection could not be handed over");
                    listener.held.unplaced.push_back((handed, fd));
                    listener.pause_until_ns = now_ns + PAUSE_NS;
                    return;
                }
            }
            if let Some(audit) = &worker.audit {
                audit.add(&fd, handed.serial);
                if worker.audit_at_ns == 0 {
                    worker.audit_at_ns = worker.audit_not_before_ns.max(now_ns + AUDIT_NS);
                }
            }
            listener.counts.given += 1;
            listener.balance.seat_mut(chosen).into_iter().for_each(|seat| seat.give(now_ns));
            // Its worker may have it by now, and let its close linger: it is closed beside.
            return drop(fd);
        }
    }

    /// A worker is given nothing more, and others what it has not taken.
    pub fn drain(&mut self, worker: ObjectId) {
        let seat = self.listener.balance.seat_mut(worker);
        seat.into_iter().for_each(|seat| seat.standing = Standing::Draining);
        self.take_back_all(worker);
    }

    /// Gives what waits for room, and then accepts again or stops accepting.
    pub fn settle(&mut self, now_ns: u64) {
        for _ in 0..self.listener.held.unplaced.len() {
            self.listener.refresh(now_ns);
            if !has_room(&self.listener, now_ns) {
                break;
            }
            let Some((handed, fd)) = self.listener.held.unplaced.pop_front() else { break };
            self.hand(handed, fd, Key::None, now_ns);
        }
        self.open_or_close(now_ns);
    }

    /// Accepts where somebody can take what comes; everything else the kernel keeps.
    fn open_or_close(&mut self, now_ns: u64) {
        self.count_held();
        let listener = &mut self.listener;
        let can_be_open = listener.held.unplaced.is_empty() && has_room(listener, now_ns);
        let is_open = can_be_open && !listener.lacks_share;
        let waits_for_room = !is_open && listener.balance.is_served();
        if is_open != listener.is_open {
            listener.is_open = is_open;
            let flags = if is_open { EventFlags::IN } else { EventFlags::empty() };
            let sockets = listener.sockets.iter().filter(|it| !it.is_away);
            sockets.for_each(|it| self.poll.change(&*it.fd, it.token, flags));
        }
        self.watch_queues(waits_for_room);
    }

    /// Hears of each connection that a worker takes, as long as room is waited for.
    fn watch_queues(&mut self, is_wanted: bool) {
        let workers = self.listener.workers.values_mut();
        for worker in workers.filter(|it| it.is_watched != is_wanted) {
            worker.is_watched = is_wanted;
            if is_wanted {
                let flags = EventFlags::OUT | EventFlags::ET;
                let _ = self.poll.watch(worker.queue.writing(), QUEUES, flags);
            } else {
                self.poll.ignore(worker.queue.writing());
            }
        }
    }
}

fn has_room(listener: &crate::listener::SharedListener, now_ns: u64) -> bool {
    let has = |seat: &heliostat_service_listener::Seat| {
        seat.standing == Standing::Ready && seat.untaken() < QUEUE_MAX
    };
    now_ns >= listener.pause_until_ns && listener.balance.seats().iter().any(has)
}
