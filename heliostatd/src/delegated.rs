//! Delegated operations, as the event loop sees them: who is served, which files they get.
//!
//! ```text
//! session --Delegate [window]--> event loop --Begin--> a server loop <==rings, window==> session
//! session --ShowFile [file]----> event loop --Opened-> server loop --completion------> session
//! session ==Open (ring)========> server loop --Wanted-> event loop -> opener -> event loop --Opened-> ...
//! ```
//!
//! The event loop decides (rights, limits, leases), the openers wait for file systems, the server
//! loops move bytes and decide nothing but turns. The loops and the openers start with the first
//! session that asks; without one there is no thread, no cache and no io_uring.

mod blocks;
mod cached;
mod called;
mod counts;
mod engine;
mod file;
mod flights;
mod held;
mod loops;
mod message;
mod meters;
mod opener;
mod serve;
mod server;
mod session;
mod shared;
mod told;
mod turns;
mod view;

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::delegated::{
    CALL_AT, CALL_BYTES, COMPLETION_AT, COMPLETION_BYTES, DEPTH_MAX, DIRECT, OBJECTS_MAX,
    RING_BYTES, SUBMISSION_BYTES,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::quota::{Holder, Quota, Shares};
use heliostat_abi::record::Reply;
use heliostat_base::mapping::{Access, SharedMapping, PAGE_BYTES};
use heliostat_control::config::Delegated as Settings;
use heliostat_control::rates::Holds;
use heliostat_ring::{Refresh, RingMemory};
use heliostat_service_file::delegated::Meter;
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{fstat, fstatfs};
use tracing::{debug, error};

use crate::closer::Shown;
use crate::daemon::Daemon;
use crate::poll::Source;
use crate::quotas::{self, full, full_of};
use crate::serve::{Answer, Refused};
use crate::shown_file;

use held::Held;
use loops::Loops;
use message::{Asked, Link, News, Order, Wish};
use meters::Meters;
use opener::{Caller, Opener};

/// News attended to before others are served.
const NEWS_AT_ONCE: usize = 64;
/// Where the file system of memory files says that it is one (statfs(2)). Huge pages have another:
/// touching those may end in SIGBUS when none is left.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The server loops' end in the event loop.
pub struct Delegated {
    loops: Loops,
    news: Receiver<News>,
    /// Rings when there are some.
    bell: Arc<OwnedFd>,
    opener: Opener,
    /// What each session has open.
    sessions: HashMap<ObjectId, Held>,
    /// Whose sessions they are.
    quota: Quota,
    /// Whose files they have open.
    files: Quota,
    /// Rates that several have together.
    meters: Meters,
    /// Number of the last file that was opened, or delegation that began.
    serial: u64,
}

impl Delegated {
    fn start(settings: &Settings, shares: (Shares, Shares)) -> std::io::Result<Delegated> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (teller, news) = channel();
        let opener = Opener::start(teller.clone(), bell.clone())?;
        let loops = Loops::start(settings, &(teller, bell.clone()))?;
        let (quota, files) = (Quota::new(shares.0), Quota::new(shares.1));
        let sessions = HashMap::new();
        let meters = Meters::default();
        Ok(Delegated { loops, news, bell, opener, sessions, quota, files, meters, serial: 0 })
    }

    /// Takes new limits over.
    pub(crate) fn set_shares(&mut self, (sessions, files): (Shares, Shares)) {
        self.quota.set_shares(sessions);
        self.files.set_shares(files);
    }

    /// Who has how many sessions that delegate, and how many files.
    pub(crate) fn quotas(&self) -> [(Thing, &Quota); 2] {
        [(Thing::Delegations, &self.quota), (Thing::DelegatedFiles, &self.files)]
    }

    /// Takes a session in: the loop with the fewest sessions has it until its end.
    fn begin(&mut self, (id, holder): (ObjectId, Holder), mut link: Link, lends: bool) {
        self.serial += 1;
        link.serial = self.serial;
        let served = self.sessions.values().map(|held| held.loop_number);
        let loop_number = self.loops.least_loaded(served);
        self.sessions.insert(id, Held::on(loop_number, self.serial, lends, holder));
        self.loops.order(loop_number, Order::Begin(id, Box::new(link)));
    }
}

impl Daemon {
    /// A session wants delegated operations: shown is [its window], the answer brings [rings].
    pub(crate) fn delegate(&mut self, id: ObjectId, shown: Shown) -> Result<Answer, Refused> {
        self.session(id)?;
        if self.net.holding(id).revoked {
            return Err(Code::Revoked.into());
        }
        let settings = &self.parts.config.delegated;
        if settings.sessions == 0 {
            return Err(Code::Denied.into());
        }
        if self.delegated.is_none() {
            let shares = quotas::delegated(&self.parts.config);
            let started = Delegated::start(settings, shares).map_err(|error| {
                error!(%error, "no delegated operations: the server loops cannot start");
                Code::Internal
            })?;
            self.poll.watch(&started.bell, Source::Delegated).map_err(|_| Code::Internal)?;
            self.delegated = Some(started);
        }
        let (holder, (rate, uid, lends)) = (self.holder(id)?, self.rate(id)?);
        let delegated = self.delegated.as_mut().ok_or(Code::Internal)?;
        if delegated.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        delegated.quota.check(holder, 1).map_err(|it| full(Thing::Delegations, it))?;
        let window = map_window(&shown, settings.window_bytes)?;
        let meter = delegated.meters.of(rate, uid);
        let (rings, link) = make_link(window, meter).map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        let (depth, objects) = (DEPTH_MAX as u32, OBJECTS_MAX as u32);
        delegated.quota.take_anyway(holder, 1);
        delegated.begin((id, holder), link, lends);
        debug!(session = %id, "delegates");
        let reply = Reply::Delegated { depth, objects, lends };
        Ok(Answer { reply, fds: vec![Rc::new(rings)] })
    }

    /// How much a session may do, and whether it may read by a ring of its own.
    fn rate(&self, id: ObjectId) -> Result<(Holds, u32, bool), Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        let (config, subject) = (&self.parts.config, &connection.peer.subject);
        Ok((config.rate_of_session(subject), subject.uid, config.may_lend(subject)))
    }

    /// A session shows a file [the file]; the completion with the tag tells its index.
    pub(crate) fn show_file(
        &mut self,
        id: ObjectId,
        shown: Shown,
        tag: u64,
        direct: bool,
    ) -> Result<Answer, Refused> {
        if self.delegated.as_ref().is_none_or(|it| !it.sessions.contains_key(&id)) {
            return Err(Code::BadState.into());
        }
        let file = self.admit_file(id, &shown, direct);
        let local = shown.into_fd_if(file.is_ok());
        let closer = self.closer.of(self.holder(id)?);
        local.into_iter().for_each(|fd| closer.close(shown_file::let_go(fd)));
        self.order(id, Order::Opened(id, Asked::Shown(tag), file));
        Ok(Reply::Done.into())
    }

    /// A server loop, or the opener, has news.
    pub(crate) fn attend_delegated(&mut self) {
        let Some(delegated) = &self.delegated else { return };
        let mut count = [0; 8];
        let _ = rustix::io::read(&delegated.bell, &mut count);
        for _ in 0..NEWS_AT_ONCE {
            let Some(news) = self.delegated.as_ref().and_then(|it| it.news.try_recv().ok()) else {
                return;
            };
            match news {
                News::Wanted(wish) => self.want(wish),
                News::Found(wish, holder, found) => self.found(wish, holder, found),
                News::Unvouched(id, object, serial) => self.vouch_again(id, object, serial),
                News::Closed(id, file) => self.close_file(id, *file),
                News::Broken(id, how) => self.end_connection(id, how),
                News::Gone => return self.lose_server(),
            }
        }
        // More of them: the bell brings us back after the others.
        let bell = self.delegated.as_ref().map(|it| it.bell.clone());
        if let Some(bell) = bell {
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        }
    }

    /// Whether the delegation that a name was wanted in goes on.
    fn is_wanted(&self, wish: &Wish) -> bool {
        let held = self.delegated.as_ref().and_then(|it| it.sessions.get(&wish.session));
        held.is_some_and(|held| held.serial == wish.serial)
    }

    fn want(&mut self, wish: Wish) {
        if !self.is_wanted(&wish) {
            return;
        }
        let Some(connection) = self.connections.get(wish.session) else { return };
        let Some(holder) = self.connections.holder(wish.session) else { return };
        let peer = &connection.peer;
        let process = peer.pidfd.as_ref().map(OwnedFd::try_clone).transpose();
        let Some(delegated) = &self.delegated else { return };
        let refused = match process {
            Ok(process) => {
                let subject = peer.subject.clone();
                let caller = Caller { subject, pid: peer.pid, process, holder };
                delegated.opener.open(wish, caller).err().map(|wish| (wish, libc::EAGAIN))
            }
            Err(error) => Some((wish, error.raw_os_error().unwrap_or(libc::EMFILE))),
        };
        if let Some((Wish { session, operation, .. }, errno)) = refused {
            self.order(session, Order::Opened(session, Asked::ByName(operation), Err(errno)));
        }
    }

    fn found(&mut self, wish: Wish, holder: Holder, found: Result<OwnedFd, i32>) {
        let closer = self.closer.of(holder);
        if !self.is_wanted(&wish) {
            return found.into_iter().for_each(|fd| closer.close(fd));
        }
        let Wish { session, operation, access, .. } = wish;
        let file = found.and_then(|fd| {
            let file = self.admit_file(session, &fd, access & DIRECT != 0);
            closer.close(fd);
            file
        });
        self.order(session, Order::Opened(session, Asked::ByName(operation), file));
    }

    /// Gives an order to the loop that has a session; one that has ended needs none.
    fn order(&self, id: ObjectId, order: Order) {
        let Some(delegated) = &self.delegated else { return };
        if let Some(held) = delegated.sessions.get(&id) {
            delegated.loops.order(held.loop_number, order);
        }
    }

    /// A session has ended, or lost its rights.
    pub(crate) fn end_delegated(&mut self, id: ObjectId) {
        let Some(delegated) = &mut self.delegated else { return };
        if let Some(held) = delegated.sessions.remove(&id) {
            delegated.quota.give_back(held.holder, 1);
            delegated.loops.order(held.loop_number, Order::End(id));
            self.leave_files(id, held);
        }
    }

    /// A loop's thread has ended, which it never does by itself. All loops end with it, and their
    /// sessions, since it may have left what they share anyhow; the next that asks starts others.
    fn lose_server(&mut self) {
        let Some(delegated) = self.delegated.take() else { return };
        error!(sessions = delegated.sessions.len(), "a server loop has ended");
        self.poll.ignore(&delegated.bell);
        for id in delegated.sessions.into_keys() {
            self.end_connection(id, "a server loop has ended");
        }
    }
}

/// Maps a window that was shown, when it is memory that cannot shrink or vanish.
fn map_window(shown: &Shown, limit: u64) -> Result<Arc<SharedMapping>, Refused> {
    // Seals first: only memory files have any, so nobody but the kernel answers the rest.
    let first = SharedMapping::from_fd(shown.as_raw_fd(), PAGE_BYTES, Access::ReadWrite);
    first.map_err(|_| Code::BadRecord)?;
    let is_memory = fstatfs(shown).is_ok_and(|status| status.f_type as u64 == TMPFS_MAGIC);
    let bytes = fstat(shown).map_or(0, |status| status.st_size.max(0) as u64);
    if !is_memory {
        return Err(Code::BadRecord.into());
    }
    if bytes > limit {
        return Err(full_of(Thing::WindowBytes, Side::Session, limit));
    }
    let window = SharedMapping::from_fd(shown.as_raw_fd(), bytes as usize, Access::ReadWrite);
    window.map(Arc::new).map_err(|_| Code::BadRecord.into())
}

fn make_link(
    window: Arc<SharedMapping>,
    meter: Meter,
) -> Result<(OwnedFd, Link), heliostat_ring::RingError> {
    let fd = SharedMapping::create_fd(c"heliostat-rings", RING_BYTES)?;
    let raw = fd.as_raw_fd();
    let submissions = RingMemory::create_in(raw, 0, SUBMISSION_BYTES)?;
    let completions = RingMemory::create_in(raw, COMPLETION_AT, COMPLETION_BYTES)?;
    let link = Link {
        submissions: submissions.spsc_consumer(Refresh::Lazy)?,
        completions: completions.spsc_producer(Refresh::Lazy)?,
        bell: Arc::new(SharedMapping::map(raw, 0, PAGE_BYTES, Access::ReadWrite)?),
        call: SharedMapping::map(raw, CALL_AT, CALL_BYTES, Access::ReadWrite)?,
        window,
        meter,
        serial: 0,
    };
    Ok((fd.into(), link))
}
