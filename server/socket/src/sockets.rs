//! A loop's part of the service: its sockets, what it watches, and the listeners of all loops.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Gate, Session};
use heliostat_service_listener::Member;

use super::held::PeekedConnections;
use super::lines::Line;
use super::listener::{Listener, Listeners};
use super::socket::{Kind, Socket};
use super::watch::{Watch, Watched};

/// Bytes that are received or sent at once: more only makes a turn longer.
const BUFFER_BYTES: usize = 64 << 10;

/// The service on one loop.
pub struct Sockets {
    pub(crate) watch: Option<Watch>,
    /// The kernel tells when something has happened.
    pub(crate) is_watched: bool,
    /// When to look because it could not be told to.
    pub(crate) look_ns: Option<u64>,
    pub(crate) buffer: Box<[u8]>,
    pub(crate) listeners: Arc<Listeners>,
    /// All loops' ends.
    pub(crate) gates: Arc<[Gate<Sockets>]>,
    /// Listeners that may have something for somebody.
    pub(crate) to_look_at: Vec<Arc<Listener>>,
    /// Listeners where something is to be given to another from this time on.
    pub(crate) late: Vec<(u64, Weak<Listener>)>,
    /// Connections whose first bytes are awaited.
    pub(crate) held: PeekedConnections,
    /// Sessions of which an operation was cut short.
    pub(crate) cut: Vec<ObjectId>,
}

impl Sockets {
    /// A loop's part, without sockets. One without a set to watch them by refuses all (ENOMEM).
    pub fn new(
        watch: Option<Watch>,
        gates: Arc<[Gate<Sockets>]>,
        listeners: Arc<Listeners>,
    ) -> Sockets {
        Sockets {
            watch,
            is_watched: false,
            look_ns: None,
            buffer: vec![0; BUFFER_BYTES].into(),
            listeners,
            gates,
            to_look_at: Vec::new(),
            late: Vec::new(),
            held: PeekedConnections::default(),
            cut: Vec::new(),
        }
    }

    /// A listener may have something for somebody: it is looked at when all turns are over.
    pub(crate) fn look_at(&mut self, listener: Arc<Listener>) {
        if !self.to_look_at.iter().any(|other| Arc::ptr_eq(other, &listener)) {
            self.to_look_at.push(listener);
        }
    }

    /// A listener is to be looked at, at this time at the latest.
    pub(crate) fn look_at_by(&mut self, listener: &Arc<Listener>, at_ns: u64) {
        let is_it = |(_, other): &&mut (u64, Weak<Listener>)| {
            std::ptr::eq(other.as_ptr(), Arc::as_ptr(listener))
        };
        match self.late.iter_mut().find(is_it) {
            Some((other_ns, _)) => *other_ns = at_ns.min(*other_ns),
            None => self.late.push((at_ns, Arc::downgrade(listener))),
        }
    }

    /// Listeners are looked at whose time has come.
    pub(crate) fn look_at_late(&mut self, now_ns: u64) {
        let (due, later) =
            std::mem::take(&mut self.late).into_iter().partition(|(at_ns, _)| *at_ns <= now_ns);
        self.late = later;
        let due: Vec<(u64, Weak<Listener>)> = due;
        due.into_iter().filter_map(|(_, it)| it.upgrade()).for_each(|it| self.look_at(it));
    }

    /// Gives a session a socket and watches it: its name, or the errno and what would have been one.
    pub(crate) fn insert(
        engine: &mut Engine<Sockets>,
        session: &mut Session<Sockets>,
        seat: ObjectId,
        descriptor: OwnedFd,
        kind: Kind,
    ) -> Result<ObjectId, (i32, OwnedFd)> {
        let budget = session.service.guest.as_ref().map(|guest| guest.budget.clone());
        let Some(slot) = budget.and_then(|budget| budget.take()) else {
            return Err((libc::ENFILE, descriptor));
        };
        let Some(watch) = &mut engine.service.watch else {
            return Err((libc::ENOMEM, descriptor));
        };
        let Some(watched) = watch.add(&descriptor) else {
            return Err((libc::ENOMEM, descriptor));
        };
        let line = Line::default;
        let socket = Socket {
            descriptor,
            kind,
            broken: None,
            watched,
            readers: line(),
            writers: line(),
            pollers: line(),
            _slot: slot,
        };
        // There is room, or `insert` would drop the socket that has to be given back.
        if session.objects.len() >= <Sockets as heliostat_server_loop::Parts>::OBJECTS {
            watch.remove(watched, &socket.descriptor);
            return Err((libc::EMFILE, socket.descriptor));
        }
        match session.objects.insert(socket) {
            Ok(id) => {
                watch.name(watched, Watched::Socket { seat, socket: id });
                Ok(id)
            }
            // Not met: there was room. The watch ends with its descriptor.
            Err(_) => unreachable!("a table with room has none"),
        }
    }

    /// Lets go of a socket that its session has no more; who waited for it.
    pub(crate) fn let_go(
        engine: &mut Engine<Sockets>,
        session: ObjectId,
        id: ObjectId,
        mut socket: Socket,
    ) -> Vec<ObjectId> {
        let service = &mut engine.service;
        if let Some(watch) = &mut service.watch {
            watch.remove(socket.watched, &socket.descriptor);
        }
        match &socket.kind {
            Kind::Listener(listener) => {
                service.listeners.leave(listener, Member::new(session, id));
                // What came meanwhile is the others'.
                let listener = listener.clone();
                service.look_at(listener);
            }
            Kind::Connection { of: Some((listener, member)), .. } => listener.ended(*member),
            Kind::Connection { of: None, .. } => {}
        }
        let lines = [&mut socket.readers, &mut socket.writers, &mut socket.pollers];
        lines.into_iter().flat_map(Line::take).collect()
    }
}
