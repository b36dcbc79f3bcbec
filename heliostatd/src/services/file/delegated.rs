//! Delegated operations, as the event loop sees them: who is served, which files they get.
//!
//! ```text
//! session --Delegate [window]--> event loop --Begin--> a server loop <==rings, window==> session
//! session --ShowFile [file]----> event loop --Opened-> server loop --completion------> session
//! session ==Open (ring)========> server loop --Wanted-> event loop -> opener -> event loop --Opened-> ...
//! session ==Mkdir, Readdir, ...> server loop --Wanted-> event loop -> opener -> event loop --Done---> ...
//! ```
//!
//! The event loop decides (rights, limits, leases), the openers wait for file systems, the server
//! loops move bytes and decide nothing but turns. The loops and the openers start with the first
//! session that asks; without one there is no thread, no cache and no io_uring.

mod admit;
mod devices;
mod shown;
mod view;

use std::rc::Rc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::file::delegated::joint::depth;
use heliostat_abi::file::delegated::OBJECTS_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_file::{
    Caller, FileEvent, FileOrder, Files, Made, OpenFile, OpenRequest, OpenedBy, Refusal, Task,
};
use heliostat_server_loop::{map_window, Event, NewSession, Order};
use heliostat_service_grant::Holder;
use tracing::{debug, error};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::poll::Source;
use crate::refused::{full, full_of, Refused};
use crate::shares;
use crate::shown_file;
use crate::state::file::delegated::Delegated;

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 64;

impl Delegated {
    /// Refuses a session that delegates already, and one more than there may be.
    fn check_room(&self, id: ObjectId, holder: Holder) -> Result<(), Refused> {
        if self.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        let room = self.loops.sessions_max();
        if self.sessions.len() >= room {
            return Err(full_of(Thing::Delegations, Side::Node, room as u64));
        }
        self.quota.check(holder, 1).map_err(|it| full(Thing::Delegations, it))
    }
}

impl Daemon {
    /// A session wants delegated operations: shown is [its window], the answer brings [rings]. As many
    /// `members` may submit on them, or the session alone.
    pub(crate) fn delegate(
        &mut self,
        id: ObjectId,
        shown: ReceivedFd,
        members: u32,
    ) -> Result<Answer, Refused> {
        let subject = self.session(id)?.peer.subject.clone();
        if self.services.file.grants.is_revoked(id) {
            return Err(Code::Revoked.into());
        }
        let (holder, config) = (self.holder(id)?, &self.parts.config);
        // No io_uring passes the fence of a sealed program.
        let shows_only = self.is_restricted(id);
        let lends = config.may_lend(&subject) && !shows_only;
        let rate = config.rate_of_session(&subject);
        let window_bytes = config.delegated.window_bytes;
        let delegated = self.server_loops()?;
        delegated.check_room(id, holder)?;
        let window = map_window(&shown, window_bytes).map_err(|error| {
            debug!(session = %id, %error, "no window");
            Refused::from(error)
        })?;
        let serial = delegated.next_serial();
        let meter = self.services.meters.of(rate, id, holder, monotonic_ns());
        let new = NewSession::create(window, meter, serial, members);
        let (rings, new) = new.map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        self.server_loops()?.begin(id, holder, new, lends);
        debug!(session = %id, members, "delegates");
        let (depth, objects) = (depth(members) as u32, OBJECTS_MAX as u32);
        let reply = Reply::Delegated { depth, objects, lends, shows_only };
        Ok(Answer { reply, fds: vec![Rc::new(rings)] })
    }

    /// The server loops, which begin with the first session that asks.
    fn server_loops(&mut self) -> Result<&mut Delegated, Refused> {
        let config = &self.parts.config;
        if config.delegated.sessions == 0 {
            return Err(Code::Denied.into());
        }
        if self.services.file.delegated.is_none() {
            let shares = shares::delegated(config);
            let started = Delegated::start(&config.delegated, shares, &config.rules);
            let started = started.map_err(|error| {
                error!(%error, "no delegated operations: the server loops cannot start");
                Code::Internal
            })?;
            self.poll.watch(&started.bell, Source::Delegated).map_err(|_| Code::Internal)?;
            self.services.file.delegated = Some(started);
        }
        Ok(self.services.file.delegated.as_mut().ok_or(Code::Internal)?)
    }

    /// A session shows a file or directory [the file]; the completion with the tag tells its index.
    /// `wanted` may have `DIRECT` or `BUFFERED`.
    pub(crate) fn show_file(
        &mut self,
        id: ObjectId,
        shown: ReceivedFd,
        tag: u64,
        wanted: u64,
    ) -> Result<Answer, Refused> {
        if self.services.file.delegated.as_ref().is_none_or(|it| !it.sessions.contains_key(&id)) {
            return Err(Code::BadState.into());
        }
        let file = self.admit_shown(id, &shown, wanted);
        let local = shown.into_fd_if(file.is_ok());
        let closer = self.closer.of(self.holder(id)?);
        local.into_iter().for_each(|fd| closer.close(shown_file::let_go(fd)));
        self.order(id, Order::Service(FileOrder::Opened(id, OpenedBy::Shown(tag), file)));
        Ok(Reply::Done.into())
    }

    /// Attends to what the server loops and the opener tell.
    pub(crate) fn attend_delegated(&mut self) {
        let Some(delegated) = &self.services.file.delegated else { return };
        let mut count = [0; 8];
        let _ = rustix::io::read(&delegated.bell, &mut count);
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.file.delegated.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return };
            match event {
                Event::Service(event) => self.attend_file(event),
                Event::Broken(id, how) => self.end_connection(id, how),
                Event::Gone => return self.lose_server(),
            }
        }
        // More of them: the bell brings us back after the others.
        let bell = self.services.file.delegated.as_ref().map(|it| it.bell.clone());
        if let Some(bell) = bell {
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        }
    }

    fn attend_file(&mut self, event: FileEvent) {
        match event {
            FileEvent::Wanted(request) => self.open_by_name(request),
            FileEvent::Found(request, holder, found) => self.found(request, holder, found),
            FileEvent::Unvouched(id, object, serial) => self.vouch_again(id, object, serial),
            FileEvent::Closed(id, file) => self.close_file(id, *file),
        }
    }

    /// Whether the delegation that a name was wanted in goes on.
    fn is_wanted(&self, request: &OpenRequest) -> bool {
        let held =
            self.services.file.delegated.as_ref().and_then(|it| it.sessions.get(&request.session));
        held.is_some_and(|held| held.serial == request.serial)
    }

    fn open_by_name(&mut self, request: OpenRequest) {
        if !self.is_wanted(&request) {
            return;
        }
        let Some(connection) = self.connections.get(request.session) else { return };
        if connection.is_restricted() && request.task.is_about_names() {
            return self.refuse_name(&request);
        }
        let Some(holder) = self.connections.holder(request.session) else { return };
        let peer = &connection.peer;
        // What is not open is counted by no name's rate: who reads by one opens the file.
        let is_fetch = matches!(request.task, Task::Fetch { .. });
        if is_fetch && self.parts.config.rates.has_names_for(&peer.subject) {
            return self.answer_open(request.session, request.operation, Err(libc::EOPNOTSUPP));
        }
        let Some(delegated) = &self.services.file.delegated else { return };
        let subject = &peer.subject;
        let caller = Caller {
            uid: subject.uid,
            gid: subject.gid,
            groups: subject.groups.clone(),
            pid: peer.pid,
            process: peer.pidfd.clone(),
            holder,
            judge: delegated
                .known
                .judge(subject, self.services.socket.confined.get(&request.session)),
        };
        if let Err(OpenRequest { session, operation, .. }) = delegated.opener.open(request, caller)
        {
            self.answer_open(session, operation, Err(libc::EAGAIN));
        }
    }

    /// Refuses what a restricted session asks of names: they would be opened with the rights and from
    /// the root folder of whoever made its connection, which is not its program.
    fn refuse_name(&mut self, request: &OpenRequest) {
        if let Some(connection) = self.connections.get(request.session) {
            self.denials.note_restricted(connection.peer.subject.uid, "name");
        }
        self.answer_open(request.session, request.operation, Err(libc::EACCES));
    }

    fn found(&mut self, request: OpenRequest, holder: Holder, found: Result<Made, Refusal>) {
        if !self.is_wanted(&request) {
            if let Ok(Made::File(fd)) = found {
                self.closer.of(holder).close(fd);
            }
            return;
        }
        let OpenRequest { session, operation, task, .. } = request;
        let file = match found {
            Ok(Made::Bytes(bytes)) => {
                let done = FileOrder::Done(session, operation, bytes);
                return self.order(session, Order::Service(done));
            }
            Ok(Made::File(fd)) => self.admit_opened(session, fd, &task),
            Err(Refusal::Errno(errno)) => Err(errno.raw_os_error()),
            Err(Refusal::Denied(denial)) => Err(self.deny(session, &denial)),
        };
        self.answer_open(session, operation, file);
    }

    fn answer_open(&self, id: ObjectId, operation: ObjectId, file: Result<Box<OpenFile>, i32>) {
        let by = OpenedBy::Name(operation);
        self.order(id, Order::Service(FileOrder::Opened(id, by, file)));
    }

    /// Gives an order to the loop that has a session; one that has ended needs none.
    fn order(&self, id: ObjectId, order: Order<Files>) {
        let Some(delegated) = &self.services.file.delegated else { return };
        if let Some(held) = delegated.sessions.get(&id) {
            delegated.loops.order(held.loop_number, order);
        }
    }

    /// A session has ended, or lost its rights.
    pub(crate) fn end_delegated(&mut self, id: ObjectId) {
        let Some(delegated) = &mut self.services.file.delegated else { return };
        if let Some(held) = delegated.sessions.remove(&id) {
            delegated.quota.give_back(held.holder, 1);
            delegated.loops.order(held.loop_number, Order::End(id));
            let closer = self.closer.of(held.holder);
            delegated.opener.forget(id).into_iter().for_each(|fd| closer.close_last(fd));
            self.leave_files(id, held);
        }
    }

    /// A loop's thread has ended, which it never does by itself. All loops end with it, and their
    /// sessions, since it may have left what they share anyhow; the next that asks starts others.
    fn lose_server(&mut self) {
        let Some(delegated) = self.services.file.delegated.take() else { return };
        error!(sessions = delegated.sessions.len(), "a server loop has ended");
        self.poll.ignore(&delegated.bell);
        for id in delegated.sessions.into_keys() {
            self.end_connection(id, "a server loop has ended");
        }
    }
}
