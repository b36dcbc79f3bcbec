//! One request each: the kernel's facts in, the decision out, the thread told.

use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::listener::{ListenerReply, ListenerRequest, Rule};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_server_listener::{Foreign, Owner, ORDERS_MAX, THREAD_DESCRIPTORS};
use heliostat_service_grant::Holder;
use heliostat_service_listener::{Endpoint, Joining};
use heliostat_service_net::Proof;
use rustix::net::{sockopt, AddressFamily, SocketFlags, SocketType};
use tracing::{debug, info, warn};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::kernel;
use crate::proofs::Purpose;
use crate::refused::{full, full_of, refuse, Refused};
use crate::state::listener::SharedListeners;

/// Connections that the kernel keeps for a listener that the control plane opened.
const BACKLOG: i32 = 4096;
/// Descriptors of a worker that brings a socket to a new listener: queue, set, both copies of the socket,
/// and those of the listener's thread.
const DESCRIPTORS_PER_JOIN: u64 = 5 + THREAD_DESCRIPTORS;

impl Daemon {
    /// Answers a request of a session.
    pub(crate) fn answer_listener(
        &mut self,
        id: ObjectId,
        request: ListenerRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        self.session(id)?;
        match request {
            ListenerRequest::Join { rule } => {
                let shown = shown.ok_or(Code::BadRecord)?;
                return self.examine(id, shown, Purpose::Join(rule));
            }
            ListenerRequest::Find { address } => return self.find_listener(id, address),
            ListenerRequest::Leave { worker } => {
                let mut effects = Vec::new();
                let grants = &mut self.services.listener.grants;
                grants.leave(id, worker, monotonic_ns(), &mut effects).map_err(refuse(id))?;
                self.carry_out_listener(effects);
            }
            ListenerRequest::Ready { worker } => {
                let grants = &self.services.listener.grants;
                let listener = grants.own_worker(id, worker).map_err(refuse(id))?;
                self.tell_listener(listener, |thread| thread.ready(worker))?;
            }
            ListenerRequest::Hold { worker } => {
                let uid = self.session(id)?.peer.subject.uid;
                let grants = &mut self.services.listener.grants;
                grants.hold(id, uid, worker).map_err(refuse(id))?;
            }
            ListenerRequest::Create { address, rule } => self.create_listener(id, address, rule)?,
            ListenerRequest::Remove { address } => {
                let listener = self.managed_listener(id, address)?;
                let mut effects = Vec::new();
                let grants = &mut self.services.listener.grants;
                grants.remove(listener, monotonic_ns(), &mut effects);
                self.carry_out_listener(effects);
            }
            ListenerRequest::Drain { worker, back } => self.drain_worker(id, worker, back)?,
            ListenerRequest::SetRule { address, rule } => {
                let listener = self.managed_listener(id, address)?;
                self.tell_listener(listener, |thread| thread.set_rule(rule))?;
                self.services.listener.grants.set_rule(listener, rule);
            }
            ListenerRequest::Plugin { address } => {
                self.set_listener_plugin(id, address, shown.ok_or(Code::BadRecord)?)?;
            }
        }
        Ok(Reply::Done.into())
    }

    /// Whoever shows a listening socket of a shared address is a worker: [queue, page].
    pub(crate) fn join_listener(
        &mut self,
        id: ObjectId,
        rule: Option<Rule>,
        proof: Proof,
        shown: ReceivedFd,
    ) -> Result<Answer, Refused> {
        let (address, namespace) = (proof.endpoint.address, proof.endpoint.namespace.0);
        let uid = self.session(id)?.peer.subject.uid;
        self.check_right(id, Right::Listen, address, uid)?;
        let holder = self.holder(id)?;
        self.check_descriptors(holder, DESCRIPTORS_PER_JOIN)?;
        let owner = self.listener_owner(holder);
        let socket = owner.own(shown.into_fd().ok_or(Code::BadRecord)?);
        let configured = self.parts.config.listeners.of(address);
        let joining = Joining {
            session: id,
            holder,
            endpoint: Endpoint { namespace, address },
            owner_uid: proof.owner_uid,
            socket: proof.socket,
            rule: rule.or(configured.map(|listener| listener.rule)),
            workers_max: self.parts.config.listeners.workers_max(address),
        };
        let joined = self.services.listener.grants.join(joining);
        let joined = joined.map_err(refuse(id))?;
        let mut undo = Vec::new();
        let ends = self.begin_worker(joined, rule.or(joining.rule), owner, socket);
        if ends.is_err() {
            let grants = &mut self.services.listener.grants;
            grants.take_back(joined, joining.socket, monotonic_ns(), &mut undo);
        }
        self.carry_out_listener(undo);
        let ends = ends?;
        debug!(session = %id, worker = %joined.worker, %address, "takes part in a shared listener");
        let (worker, place, workers) = (joined.worker, joined.place, joined.workers);
        let reply = ListenerReply::Joined { worker, place, workers }.encode();
        let fds: Vec<Rc<dyn AsFd>> = vec![Rc::new(ends.queue), Rc::new(ends.page)];
        Ok(Answer { reply: Reply::Own(Box::new(reply)), fds })
    }

    fn begin_worker(
        &mut self,
        joined: heliostat_service_listener::Joined,
        rule: Option<Rule>,
        owner: Owner,
        socket: Foreign,
    ) -> Result<heliostat_server_listener::WorkerEnds, Refused> {
        let listeners = &mut self.services.listener;
        if joined.is_first {
            let rule = rule.unwrap_or(Rule::LeastLoad);
            let taken = listeners.check_threads(owner.holder);
            taken.map_err(|exceeded| full(Thing::SharedListeners, exceeded))?;
            let started = listeners.start(joined.listener, owner.clone(), rule);
            started.map_err(|error| behind(&error))?;
            info!(listener = %joined.listener, %rule, "an address is shared from now on");
        }
        let begun = Self::begin_in(listeners, joined, owner, socket);
        begun.map_err(|error| behind(&error))
    }

    fn begin_in(
        listeners: &mut SharedListeners,
        joined: heliostat_service_listener::Joined,
        owner: Owner,
        socket: Foreign,
    ) -> std::io::Result<heliostat_server_listener::WorkerEnds> {
        let (listener, worker) = (joined.listener, joined.worker);
        // Before its socket is there: who is behind gets neither.
        let ends = listeners.thread(listener)?.add_worker(worker, joined.place)?;
        if joined.brings_socket {
            let added = Self::add_listening_socket(listeners, listener, owner, socket);
            if let Err(error) = added {
                listeners.thread(listener)?.end_worker(worker);
                return Err(error);
            }
        }
        Ok(ends)
    }

    fn add_listening_socket(
        listeners: &mut SharedListeners,
        id: ObjectId,
        owner: Owner,
        socket: Foreign,
    ) -> std::io::Result<()> {
        let shown = owner.own(rustix::io::fcntl_dupfd_cloexec(&socket, 0)?);
        listeners.thread(id)?.add_socket(socket)?;
        if let Entry::Vacant(place) = listeners.sockets.entry(id) {
            place.insert(Rc::new(shown));
        }
        Ok(())
    }

    /// The socket of a shared address: [listening socket].
    fn find_listener(&mut self, id: ObjectId, address: NetAddress) -> Result<Answer, Refused> {
        let peer = &self.session(id)?.peer;
        let (namespace, uid) = (peer.namespace.0, peer.subject.uid);
        let grants = &self.services.listener.grants;
        let listener = grants.find(Endpoint { namespace, address }).map_err(refuse(id))?;
        if grants.owner(listener) != Some(uid) && uid != 0 {
            return Err(Code::Denied.into());
        }
        self.check_right(id, Right::Listen, address, uid)?;
        let socket = self.services.listener.sockets.get(&listener).ok_or(Code::NotFound)?.clone();
        let reply = Reply::Own(Box::new(ListenerReply::Found.encode()));
        Ok(Answer { reply, fds: vec![socket] })
    }

    /// A listener whose socket the control plane opens: with its own rights, so for its own user alone.
    fn create_listener(
        &mut self,
        id: ObjectId,
        address: NetAddress,
        rule: Rule,
    ) -> Result<(), Refused> {
        let peer = &self.session(id)?.peer;
        let (uid, namespace) = (peer.subject.uid, peer.namespace.0);
        if uid != self.own_uid && uid != 0 {
            return Err(Code::Denied.into());
        }
        self.check_right(id, Right::Listen, address, uid)?;
        let holder = self.holder(id)?;
        self.check_descriptors(holder, DESCRIPTORS_PER_JOIN)?;
        let owner = self.listener_owner(holder);
        // From the first worker on it is theirs as well.
        let socket = listening_socket(address).map(|it| owner.own(it)).map_err(|error| {
            info!(%address, %error, "no shared listener can be made");
            Code::BadState
        })?;
        let own = kernel::namespace_cookie(&socket).map_err(|_| Code::Internal)?;
        if own != namespace {
            return Err(Code::BadState.into());
        }
        let bound =
            rustix::net::getsockname(&socket).ok().and_then(|it| SocketAddr::try_from(it).ok());
        let address = NetAddress::new(bound.ok_or(Code::Internal)?);
        let cookie = sockopt::socket_cookie(&socket).map_err(|_| Code::Internal)?;
        let listeners = &mut self.services.listener;
        let taken = listeners.check_threads(holder);
        taken.map_err(|exceeded| full(Thing::SharedListeners, exceeded))?;
        let endpoint = Endpoint { namespace, address };
        let listener = listeners.grants.create(holder, endpoint, uid, rule).map_err(refuse(id))?;
        listeners.grants.has_socket(listener, cookie);
        let begun =
            rustix::io::fcntl_dupfd_cloexec(&socket, 0).map_err(Into::into).and_then(|it| {
                listeners.start(listener, owner.clone(), rule)?.add_socket(owner.own(it))
            });
        listeners.sockets.insert(listener, Rc::new(socket));
        if let Err(error) = begun {
            warn!(%error, "no shared listener can be made");
            let mut effects = Vec::new();
            self.services.listener.grants.remove(listener, monotonic_ns(), &mut effects);
            self.carry_out_listener(effects);
            return Err(Code::Internal.into());
        }
        Ok(())
    }

    /// Whose a listener is, and who closes what is its: its workers use that on.
    fn listener_owner(&self, holder: Holder) -> Owner {
        Owner { holder, closer: Arc::new(self.closer.of(holder).shared()) }
    }

    fn drain_worker(&mut self, id: ObjectId, worker: ObjectId, back: bool) -> Result<(), Refused> {
        let grants = &self.services.listener.grants;
        let listener = grants.listener_of(worker).map_err(refuse(id))?;
        self.check_listener_manager(id, listener)?;
        self.tell_listener(listener, |thread| match back {
            true => thread.resume(worker),
            false => thread.drain(worker),
        })
    }

    fn set_listener_plugin(
        &mut self,
        id: ObjectId,
        address: NetAddress,
        shown: ReceivedFd,
    ) -> Result<(), Refused> {
        let listener = self.managed_listener(id, address)?;
        let is_unix = sockopt::socket_domain(&shown) == Ok(AddressFamily::UNIX);
        let is_packets = sockopt::socket_type(&shown) == Ok(SocketType::SEQPACKET);
        let owner = self.listener_owner(self.holder(id)?);
        let socket = shown.into_fd_if(is_unix && is_packets).ok_or(Code::BadRecord)?;
        let socket = owner.own(socket);
        self.tell_listener(listener, |thread| thread.set_plugin(socket))
    }

    /// The listener on an address, for one who may change it.
    fn managed_listener(&mut self, id: ObjectId, address: NetAddress) -> Result<ObjectId, Refused> {
        let namespace = self.session(id)?.peer.namespace.0;
        let grants = &self.services.listener.grants;
        let listener = grants.find(Endpoint { namespace, address }).map_err(refuse(id))?;
        self.check_listener_manager(id, listener)?;
        Ok(listener)
    }

    fn check_listener_manager(&self, id: ObjectId, listener: ObjectId) -> Result<(), Refused> {
        let uid = self.session(id)?.peer.subject.uid;
        let is_owner = self.services.listener.grants.owner(listener) == Some(uid);
        match is_owner || uid == 0 || uid == self.own_uid {
            true => Ok(()),
            false => Err(Code::Denied.into()),
        }
    }
}

/// Why a listener's thread takes nothing more: it is far behind, or the kernel has no room.
pub(super) fn behind(error: &std::io::Error) -> Refused {
    if error.kind() == std::io::ErrorKind::QuotaExceeded {
        return full_of(Thing::ListenerWorkers, Side::Object, ORDERS_MAX as u64);
    }
    warn!(%error, "no worker of a shared listener can be made, or told something");
    Code::Internal.into()
}

/// A socket that listens there.
fn listening_socket(address: NetAddress) -> std::io::Result<OwnedFd> {
    let address = SocketAddr::new(address.ip, address.port);
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}
