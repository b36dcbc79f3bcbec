//! How things end in the net service: unregistering, revoking, and the death of a session.

use heliostat_abi::name::ObjectId;

use crate::net::{Effect, Net};
use crate::refusal::{Reason, Refusal};

impl Net {
    /// Takes `session`'s registration of `port` back; the last one frees the port.
    pub fn unregister(
        &mut self,
        session: ObjectId,
        port: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if !self.ports.has(session, port) {
            return Err(Reason::NotRegistered { port }.into());
        }
        self.leave_port(session, port, effects);
        Ok(())
    }

    fn leave_port(&mut self, session: ObjectId, port: ObjectId, effects: &mut Vec<Effect>) {
        if self.ports.leave(session, port) == Some(0) {
            self.free_port(port, effects);
        }
    }

    /// Forgets one channel, for example because its memory could not be made.
    pub fn forget(&mut self, channel: ObjectId, effects: &mut Vec<Effect>) {
        let Some(share) = self.channels.share_of(channel) else { return };
        let Some(client) = self.channels.session(channel) else { return };
        let Some(gone) = self.channels.remove(channel) else { return };
        if let Some(port) = self.ports.get_mut(gone.port) {
            port.channels.remove(&gone.serial);
        }
        self.bytes.give_back(client, share, gone.bytes);
        effects.push(Effect::ChannelFreed(channel));
    }

    /// Ends a session: its ports unregister, the channels it opened are forgotten.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let channels: Vec<_> = self.channels.of(session).collect();
        self.leave_ports(session, effects);
        channels.into_iter().for_each(|channel| self.forget(channel, effects));
        self.revoked.forget(session);
    }

    fn leave_ports(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let ports: Vec<_> = self.ports.of(session).collect();
        ports.into_iter().for_each(|port| self.leave_port(session, port, effects));
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
            self.revoked.insert(*session);
            self.leave_ports(*session, effects);
        }
        count
    }

    /// Channels whose memory a session may have mapped.
    fn reached_by(&self, session: ObjectId) -> Vec<ObjectId> {
        let mut channels: Vec<ObjectId> = self.channels.of(session).collect();
        for id in self.ports.of(session) {
            let Some((port, registration)) = self.ports.held(session, id) else { continue };
            channels.extend(port.channels.range(..registration.unsent).map(|(_, id)| *id));
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
        gone.channels.values().for_each(|channel| self.forget(*channel, effects));
        effects.push(Effect::RegistryChanged);
    }
}
