//! What comes: connections, their first bytes, a plug-in's words, and deadlines that pass.

use heliostat_abi::listener::limits::PLUGIN_ASKED_MAX;
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::{Handed, Rule};
use heliostat_service_listener::{decides, Key};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::closing::Foreign;
use crate::held::{Awaited, Held};
use crate::plugin::Heard;
use crate::state::{Source, State};

/// Words of a plug-in heard at once: orders and workers wait meanwhile.
const HEARD_MAX: usize = 16;

impl State {
    /// A connection has come: the rule says what has to be known of it.
    pub fn arrive(&mut self, handed: Handed, fd: Foreign, now_ns: u64) {
        let rule = self.listener.balance.rule();
        match (rule, rule.peek()) {
            (_, Some(peek)) => self.peek(handed, fd, peek, now_ns),
            (Rule::Plugin(peek), None) => self.ask(handed, fd, &[], peek, now_ns),
            _ => self.hand(handed, fd, Key::None, now_ns),
        }
    }

    /// Waits for the first bytes, unless they are there. Where too many are waited for, the one that
    /// has been silent longest is given by load.
    fn peek(&mut self, handed: Handed, fd: Foreign, peek: Peek, now_ns: u64) {
        let mut room = vec![0; peek.bytes_max as usize];
        if let Some(length) = first_bytes(&fd, &mut room, false) {
            return self.read(handed, fd, &room[..length], now_ns);
        }
        let held = &self.listener.held;
        let crowded = held.awaiting() >= self.awaited_max();
        if let Some(oldest) = crowded.then(|| held.oldest()).flatten() {
            self.give_up_waiting(oldest, now_ns);
        }
        let token = self.token(Source::Held(handed.serial));
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if self.poll.watch(&fd, token, flags).is_err() {
            self.sources.remove(&token);
            return self.hand(handed, fd, Key::None, now_ns);
        }
        let until_ns = now_ns + u64::from(peek.deadline_ms) * 1_000_000;
        let awaited = Awaited::Bytes { until_ns };
        self.listener.held.insert(Held { fd, handed, awaited, token });
    }

    /// A connection whose first bytes are awaited has some, or has ended.
    pub fn first_bytes_came(&mut self, serial: u64, is_end: bool, now_ns: u64) {
        let listener = &self.listener;
        let bytes_max = listener.balance.rule().peek().map_or(0, |peek| peek.bytes_max);
        let Some(held) = listener.held.get(serial) else { return };
        let mut room = vec![0; bytes_max as usize];
        if let Some(length) = first_bytes(&held.fd, &mut room, is_end) {
            let Some(held) = self.release(serial) else { return };
            self.read(held.handed, held.fd, &room[..length], now_ns);
        }
    }

    /// Waits for nothing more of the connections.
    pub fn release_all(&mut self) {
        for serial in self.listener.held.serials() {
            let Some(Held { handed, fd, .. }) = self.release(serial) else { continue };
            self.listener.held.unplaced.push_back((handed, fd));
        }
    }

    /// Takes a connection out of those that are waited for.
    fn release(&mut self, serial: u64) -> Option<Held> {
        let held = self.listener.held.remove(serial)?;
        if matches!(held.awaited, Awaited::Bytes { .. }) {
            self.poll.ignore(&held.fd);
            self.sources.remove(&held.token);
        }
        Some(held)
    }

    /// The first bytes are known: the first line decides, or the plug-in.
    fn read(&mut self, handed: Handed, fd: Foreign, bytes: &[u8], now_ns: u64) {
        match self.listener.balance.rule() {
            Rule::Plugin(peek) => self.ask(handed, fd, bytes, peek, now_ns),
            _ => self.hand(handed, fd, Key::of_first(bytes), now_ns),
        }
    }

    fn ask(&mut self, handed: Handed, fd: Foreign, bytes: &[u8], peek: Peek, now_ns: u64) {
        let listener = &mut self.listener;
        listener.refresh(now_ns);
        let seats = listener.balance.seats();
        let asked = listener.held.awaiting() < PLUGIN_ASKED_MAX
            && listener.plugin.as_ref().is_some_and(|it| it.ask(&handed, seats, bytes).is_ok());
        if !asked {
            listener.counts.unanswered += 1;
            return self.hand(handed, fd, Key::None, now_ns);
        }
        let until_ns = now_ns + u64::from(peek.deadline_ms) * 1_000_000;
        listener.held.insert(Held { fd, handed, awaited: Awaited::Plugin { until_ns }, token: 0 });
    }

    /// The plug-in has said something.
    pub fn hear_plugin(&mut self, now_ns: u64) {
        for count in 0..HEARD_MAX {
            let listener = &mut self.listener;
            let Some(plugin) = &mut listener.plugin else { return };
            let heard = match plugin.hear(&listener.owner) {
                Heard::Nothing if count == 0 => plugin.says_nothing(),
                other => other,
            };
            match heard {
                Heard::Named(named) => {
                    let is_asked = |held: &Held| matches!(held.awaited, Awaited::Plugin { .. });
                    if listener.held.get(named.serial).is_some_and(is_asked) {
                        let Some(held) = self.release(named.serial) else { continue };
                        self.hand(held.handed, held.fd, Key::Place(named.place), now_ns);
                    }
                }
                Heard::Garbage => listener.counts.garbage += 1,
                Heard::Nothing => break,
                Heard::Gone => {
                    self.end_plugin(now_ns);
                    break;
                }
            }
        }
        self.settle(now_ns);
    }

    /// The plug-in is asked no more.
    pub fn end_plugin(&mut self, now_ns: u64) {
        let Some(gone) = self.listener.plugin.take() else { return };
        self.poll.ignore(&gone);
        self.sources.remove(&gone.token);
        let asked = self.listener.held.asked();
        asked.into_iter().for_each(|serial| self.give_up_waiting(serial, now_ns));
    }

    /// A connection is given by load: its client, or the plug-in, was silent for too long.
    pub fn give_up_waiting(&mut self, serial: u64, now_ns: u64) {
        let Some(held) = self.release(serial) else { return };
        match held.awaited {
            Awaited::Bytes { .. } => self.listener.counts.silent += 1,
            Awaited::Plugin { .. } => self.listener.counts.unanswered += 1,
        }
        self.hand(held.handed, held.fd, Key::None, now_ns);
    }
}

/// How many first bytes there are, once they decide: a whole line, as many as are looked at, or what
/// there is at the connection's end. They stay in the connection.
fn first_bytes(fd: &Foreign, room: &mut [u8], is_end: bool) -> Option<usize> {
    let bytes_max = room.len();
    match rustix::net::recv(fd, &mut *room, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => Some(0),
        Ok((length, _)) => decides(&room[..length], bytes_max, is_end).then_some(length),
        Err(Errno::AGAIN | Errno::INTR) => None,
        // It was reset: its worker will be told so.
        Err(_) => Some(0),
    }
}
