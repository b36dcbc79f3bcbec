//! What sessions ask: to be one, to listen, to open, to attach.

use std::os::fd::AsFd;
use std::rc::Rc;

use heliostat_abi::channel;
use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::node::State;
use heliostat_abi::record::{ChannelEntry, Reply};
use heliostat_control::name::tcp_name;
use heliostat_control::rights::Right;
use heliostat_service_grant::Holder;
use heliostat_service_net::{Endpoint, Opening};
use tracing::{debug, warn};

use crate::closer::Shown;
use crate::connect::{Connection, Pace, Session};
use crate::daemon::Daemon;
use crate::memory::{ChannelMemory, Report};
use crate::proof;
use crate::quotas::full;
use crate::refused::{refuse, Refused};
use crate::serve::Answer;

impl Daemon {
    /// Makes a connection a session: [node page, report].
    pub(crate) fn greet(&mut self, id: ObjectId, program: String) -> Result<Answer, Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        if connection.session.is_some() {
            return Err(Code::BadState.into());
        }
        // Root may look at a user's daemon, but its sessions belong to root's own.
        if self.own_uid != 0 && connection.peer.subject.uid != self.own_uid {
            return Err(Code::Denied.into());
        }
        if connection.pace == Pace::Beyond {
            return Err(self.too_fast(Side::User, self.parts.config.limits.connects));
        }
        let holder = self.holder(id)?;
        self.sessions.take(holder, 1).map_err(|it| full(Thing::Sessions, it))?;
        let answer = self.begin_session(id, holder, &program);
        if answer.is_err() {
            self.sessions.give_back(holder, 1);
        }
        answer
    }

    fn begin_session(
        &mut self,
        id: ObjectId,
        holder: Holder,
        program: &str,
    ) -> Result<Answer, Refused> {
        let (report, report_fd) = Report::create().map_err(|error| {
            warn!(%error, "no memory for a report");
            Code::Internal
        })?;
        let node = self.node.fd().try_clone().map_err(|error| {
            warn!(%error, "no descriptor for the node page");
            Code::Internal
        })?;
        let connection = self.connections.get_mut(id).ok_or(Code::Internal)?;
        let program = printable(program);
        let namespace = connection.peer.namespace_name();
        debug!(session = %id, pid = connection.peer.pid, program, namespace, "a session begins");
        connection.session = Some(Session { program, namespace, report, holder });
        self.visitors -= 1;
        self.node.set_session(id, State::Active);
        let reply = Reply::Welcome { session: id, boot: self.boot };
        Ok(Answer { reply, fds: vec![Rc::new(node), Rc::new(report_fd)] })
    }

    /// Registers the address of a listening socket.
    pub(crate) fn listen(&mut self, id: ObjectId, shown: Shown) -> Result<Answer, Refused> {
        let examined = proof::examine(shown.as_fd());
        // Before the answer: a client that closes its socket upon it finds the address free.
        let listening = shown.into_fd_if(examined.is_ok());
        listening.into_iter().for_each(proof::close);
        let connection = self.session(id)?;
        let proof = examined.map_err(|error| {
            debug!(session = %id, %error, "no proof of listening");
            error.code()
        })?;
        let (owner, address) = (connection.peer.subject.uid, proof.endpoint.address);
        // Whoever holds the listening socket owns the name, unless a rule says otherwise.
        self.check_right(id, Right::Listen, address, owner)?;
        let (holder, mut effects) = (self.holder(id)?, Vec::new());
        let answer = self.net.register(id, holder, proof, &mut effects);
        self.carry_out(effects);
        let port = answer.map_err(refuse(id))?;
        debug!(session = %id, %port, name = tcp_name(address), "listens");
        Ok(Reply::Listening { port, address }.into())
    }

    /// Takes a registration back.
    pub(crate) fn unlisten(&mut self, id: ObjectId, port: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let mut effects = Vec::new();
        let answer = self.net.unregister(id, port, &mut effects);
        self.carry_out(effects);
        answer.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }

    /// Makes a channel to whoever listens on an address: [channel memory].
    pub(crate) fn open(&mut self, id: ObjectId, address: NetAddress) -> Result<Answer, Refused> {
        let peer = &self.session(id)?.peer;
        let wanted = Endpoint { namespace: peer.namespace, address };
        let port = self.net.resolve(wanted).ok_or(Code::NotFound)?;
        let port = self.net.port(port).ok_or(Code::NotFound)?;
        self.check_right(id, Right::Connect, port.endpoint.address, port.owner_uid)?;
        let shape = self.parts.config.channel;
        let bytes = channel::bytes(shape.slots, shape.ring_bytes) as u64;
        let opening = Opening { client: id, holder: self.holder(id)?, port: port.id, bytes };
        let mut effects = Vec::new();
        let channel = self.net.open(opening, &mut effects).map_err(refuse(id))?;
        match ChannelMemory::create(channel, shape.slots, shape.ring_bytes) {
            Ok(memory) => self.channels.insert(channel, memory),
            Err(error) => {
                warn!(%error, "no memory for a channel");
                effects.clear();
                self.net.forget(channel, &mut effects);
                self.carry_out(effects);
                return Err(Code::Internal.into());
            }
        };
        self.carry_out(effects);
        debug!(session = %id, %channel, port = %port.id, name = tcp_name(address), "opens");
        self.channels_answer(port.id, vec![(channel, id, port.owner_uid)], false)
    }

    /// The channels of a port that a session does not have yet: [channel memory, ...].
    pub(crate) fn attach(&mut self, id: ObjectId, port: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let batch = self.net.attach(id, port).map_err(refuse(id))?;
        let views = batch.channels.iter().filter_map(|channel| {
            let view = self.net.channel(*channel)?;
            Some((*channel, view.client, view.client_uid))
        });
        self.channels_answer(port, views.collect(), batch.more)
    }

    /// The reply for (channel, client, user of the other side) with each channel's memory.
    fn channels_answer(
        &self,
        port: ObjectId,
        channels: Vec<(ObjectId, ObjectId, u32)>,
        more: bool,
    ) -> Result<Answer, Refused> {
        let (mut entries, mut fds) = (Vec::new(), Vec::<Rc<dyn AsFd>>::new());
        for (id, client, peer_uid) in channels {
            let memory = self.channels.get(&id).ok_or(Code::Internal)?;
            let (slots, ring_bytes) = (memory.slots, memory.ring_bytes);
            entries.push(ChannelEntry { id, client, peer_uid, slots, ring_bytes });
            fds.push(memory.fd.clone());
        }
        Ok(Answer { reply: Reply::Channels { port, entries, more }, fds })
    }

    /// The connection of a session; one that has not greeted may not ask for grants.
    pub(crate) fn session(&self, id: ObjectId) -> Result<&Connection, Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        match connection.session {
            Some(_) => Ok(connection),
            None => Err(Code::BadState.into()),
        }
    }
}

/// A foreign text as it may stand in a log or on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { '?' }).collect()
}

/// Neither a control character nor one that is not seen, as those are that turn a line round.
fn is_printable(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().len() == 1
}
