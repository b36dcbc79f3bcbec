//! How things end in the net service: unregistering, revoking, and the death of a session.

use heliostat_abi::name::ObjectId;

use crate::net::{Effect, Net};
use crate::refusal::Refusal;

impl Net {
    /// Takes `session`'s registration of `port` back; the last one frees the port.
    pub fn unregister(
        &mut self,
        session: ObjectId,
        port: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let holds = self.held.get_mut(&session).is_some_and(|held| held.ports.remove(&port));
        if !holds {
            return Err(Refusal::NotRegistered { port });
        }
        self.leave_port(session, port, effects);
        Ok(())
    }

    fn leave_port(&mut self, session: ObjectId, port: ObjectId, effects: &mut Vec<Effect>) {
        let Some(found) = self.ports.get_mut(port) else { return };
        found.sessions.remove(&session.index);
        if found.sessions.is_empty() {
            self.free_port(port, effects);
        }
    }

    /// Forgets one channel, for example because its memory could not be made.
    pub fn forget(&mut self, channel: ObjectId, effects: &mut Vec<Effect>) {
        let Some(holder) = self.channels.holder(channel) else { return };
        let Some(gone) = self.channels.remove(channel) else { return };
        if let Some(port) = self.ports.get_mut(gone.port) {
            port.channels.remove(&gone.serial);
        }
        if let Some(held) = self.held.get_mut(&gone.client) {
            held.channels.remove(&channel);
            held.bytes -= gone.bytes;
        }
        self.bytes.give_back(holder, gone.bytes);
        effects.push(Effect::ChannelFreed(channel));
    }

    /// Ends a session: its ports unregister, the channels it opened are forgotten.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let Some(held) = self.held.get_mut(&session) else { return };
        let ports = std::mem::take(&mut held.ports);
        let channels = held.channels.clone();
        ports.into_iter().for_each(|port| self.leave_port(session, port, effects));
        channels.into_iter().for_each(|channel| self.forget(channel, effects));
        self.held.remove(&session);
    }

    /// Revokes what the sessions of one process hold: the channels they opened, those they were
    /// sent as acceptors, and their registrations. They get nothing new. Answers how many
    /// channels were revoked.
    ///
    /// All channels come before all ports: a port that went first would free the channels that
    /// another of the sessions opened to it, and its peer would go on instead of leaving.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut channels: Vec<_> = sessions.iter().flat_map(|id| self.reached_by(*id)).collect();
        channels.sort_unstable();
        channels.dedup();
        let count = channels.iter().filter(|id| self.revoke_channel(**id, effects)).count();
        for session in sessions {
            let held = self.held.entry(*session).or_default();
            held.revoked = true;
            let ports = std::mem::take(&mut held.ports);
            ports.into_iter().for_each(|port| self.leave_port(*session, port, effects));
        }
        count
    }

    /// Channels whose memory a session may have mapped.
    fn reached_by(&self, session: ObjectId) -> Vec<ObjectId> {
        let Some(held) = self.held.get(&session) else { return Vec::new() };
        let mut channels: Vec<ObjectId> = held.channels.iter().copied().collect();
        for port in held.ports.iter().filter_map(|port| self.ports.get(*port)) {
            let unsent = port.sessions.get(&session.index).map_or(0, |entry| entry.unsent);
            channels.extend(port.channels.range(..unsent).map(|(_, id)| *id));
        }
        channels
    }

    /// A revoked channel leaves its port, so that nobody is sent it any more, and stays with its
    /// client, so that its word is not used for another before the client has ended.
    fn revoke_channel(&mut self, id: ObjectId, effects: &mut Vec<Effect>) -> bool {
        let Some(channel) = self.channels.get_mut(id).filter(|channel| !channel.revoked) else {
            return false;
        };
        channel.revoked = true;
        let (port, serial) = (channel.port, channel.serial);
        if let Some(port) = self.ports.get_mut(port) {
            port.channels.remove(&serial);
        }
        effects.push(Effect::ChannelRevoked(id));
        true
    }

    pub(crate) fn free_port(&mut self, port: ObjectId, effects: &mut Vec<Effect>) {
        let Some(gone) = self.ports.remove(port) else { return };
        self.by_endpoint.remove(&gone.endpoint);
        for registration in gone.sessions.values() {
            if let Some(held) = self.held.get_mut(&registration.session) {
                held.ports.remove(&port);
            }
        }
        gone.channels.values().for_each(|channel| self.forget(*channel, effects));
        effects.push(Effect::RegistryChanged);
    }
}
