//! Delegated operations, as the event loop sees them: who is served, which files they get.
//!
//! ```text
//! session --Delegate [window]--> event loop --Begin--> server loop <==rings, window==> session
//! session --ShowFile [file]----> event loop --Opened-> server loop --completion------> session
//! session ==Open (ring)========> server loop --Wanted-> event loop -> opener -> event loop --Opened-> ...
//! ```
//!
//! The event loop decides (rights, limits, leases), the opener waits for file systems, the server
//! loop moves bytes and decides nothing but turns. The loop and the opener start with the first
//! session that asks; without one there is no thread, no cache and no io_uring.

mod cached;
mod counts;
mod engine;
mod file;
mod message;
mod opener;
mod serve;
mod server;
mod session;
mod turns;
mod view;

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::SystemTime;

use heliostat_abi::code::{Code, Unmapped};
use heliostat_abi::delegated::{
    COMPLETION_AT, COMPLETION_BYTES, DEPTH_MAX, DIRECT, OBJECTS_MAX, RING_BYTES, SUBMISSION_BYTES,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::record::Reply;
use heliostat_base::mapping::{Access, SharedMapping, PAGE_BYTES};
use heliostat_control::config::Delegated as Settings;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_ring::{Refresh, RingMemory};
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{fstat, fstatfs, OFlags};
use tracing::{debug, error, info};

use crate::daemon::Daemon;
use crate::poll::Source;
use crate::serve::{Answer, Refused};
use crate::shown_file::{self, ShownFile};

use counts::Counts;
use engine::Engine;
use file::{OpenFile, Version, Vouched};
use message::{Asked, Link, News, Order, Rates, Wish};
use opener::Opener;
use server::{Inbox, Server};

/// How long the loop stays awake with nothing to do. It must exceed a wake-up's time.
const SPIN_NS: u64 = 50_000;
/// The same on a core that the loop has for itself.
const SPIN_ALONE_NS: u64 = 1_000_000;
/// News attended to before others are served.
const NEWS_AT_ONCE: usize = 64;
/// Where the file system of memory files says that it is one (statfs(2)). Huge pages have another:
/// touching those may end in SIGBUS when none is left.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// A version whose last change was no longer ago counts under its own lease only.
const YOUNG_S: i64 = 2;

/// The server loop's end in the event loop.
pub struct Delegated {
    orders: Sender<Order>,
    news: Receiver<News>,
    /// Rings in the server loop, and here.
    bells: (Arc<OwnedFd>, Arc<OwnedFd>),
    opener: Opener,
    /// By session, how many of its open files are under which lease.
    sessions: HashMap<ObjectId, HashMap<ObjectId, u32>>,
    counts: Arc<Counts>,
}

impl Delegated {
    fn start(settings: &Settings) -> std::io::Result<Delegated> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let bells = (bell()?, bell()?);
        let (orders, inbox) = channel();
        let (teller, news) = channel();
        let counts = Arc::new(Counts::default());
        let opener = Opener::start(teller.clone(), bells.1.clone())?;
        let spin_ns = if settings.core.is_some() { SPIN_ALONE_NS } else { SPIN_NS };
        let inbox = Inbox { orders: inbox, bell: bells.0.clone(), spin_ns };
        let (cache_bytes, core) = (settings.cache_bytes, settings.core);
        let parts = (counts.clone(), teller, bells.1.clone());
        let (started, answer) = channel();
        let work = move || {
            let (counts, teller, bell) = parts;
            let _end = Farewell(teller.clone(), bell.clone());
            let pinned = core.map(heliostat_base::affinity::pin);
            if let Some(Err(errno)) = pinned {
                error!(?core, %errno, "the server loop shares: it cannot have its core");
            }
            let engine = Engine::create(cache_bytes, counts, (teller, bell));
            let _ = started.send(engine.as_ref().map(|_| ()).map_err(std::io::Error::to_string));
            if let Ok(engine) = engine {
                Server::new(engine, inbox).run();
            }
        };
        std::thread::Builder::new().name("server-loop".into()).spawn(work)?;
        // It only makes its io_uring before it answers.
        match answer.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(std::io::Error::other(error)),
            Err(_) => return Err(std::io::Error::other("its thread has ended")),
        }
        Ok(Delegated { orders, news, bells, opener, sessions: HashMap::new(), counts })
    }

    fn order(&self, order: Order) {
        // Where nobody takes it the loop has ended, and `Gone` is among the news.
        let _ = self.orders.send(order);
        let _ = rustix::io::write(&self.bells.0, &1u64.to_ne_bytes());
    }
}

/// Tells that the server loop's thread has ended, in whatever way.
struct Farewell(Sender<News>, Arc<OwnedFd>);

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0.send(News::Gone);
        let _ = rustix::io::write(&self.1, &1u64.to_ne_bytes());
    }
}

impl Daemon {
    /// A session wants delegated operations: shown is [its window], the answer brings [rings].
    pub(crate) fn delegate(&mut self, id: ObjectId, shown: OwnedFd) -> Result<Answer, Refused> {
        self.session(id)?;
        let settings = &self.parts.config.delegated;
        if settings.sessions == 0 {
            return Err(Code::Denied.into());
        }
        if self.delegated.is_none() {
            let started = Delegated::start(settings).map_err(|error| {
                error!(%error, "no delegated operations: the server loop cannot start");
                Code::Internal
            })?;
            self.poll.watch(&started.bells.1, Source::Delegated).map_err(|_| Code::Internal)?;
            self.delegated = Some(started);
        }
        let delegated = self.delegated.as_mut().ok_or(Code::Internal)?;
        let limit = settings.sessions;
        if delegated.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        if delegated.sessions.len() >= limit {
            return Err(Refused { code: Code::Full, limit: limit as u64 });
        }
        let window = map_window(&shown, settings.window_bytes)?;
        let (rings, link) = make_link(window, settings).map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        delegated.sessions.insert(id, HashMap::new());
        delegated.order(Order::Begin(id, Box::new(link)));
        info!(session = %id, "delegates");
        let reply = Reply::Delegated { depth: DEPTH_MAX as u32, objects: OBJECTS_MAX as u32 };
        Ok(Answer { reply, fds: vec![Rc::new(rings)] })
    }

    /// A session shows a file [the file]; the completion with the tag tells its index.
    pub(crate) fn show_file(
        &mut self,
        id: ObjectId,
        shown: OwnedFd,
        tag: u64,
        direct: bool,
    ) -> Result<Answer, Refused> {
        if self.delegated.as_ref().is_none_or(|it| !it.sessions.contains_key(&id)) {
            self.closer.close(shown);
            return Err(Code::BadState.into());
        }
        let file = self.admit_file(id, &shown, direct);
        self.closer.close(shown);
        self.order(Order::Opened(id, Asked::Shown(tag), file));
        Ok(Reply::Done.into())
    }

    /// What a session may do with an open file, and by which descriptors; an errno when nothing.
    fn admit_file(
        &mut self,
        id: ObjectId,
        shown: &OwnedFd,
        wants_direct: bool,
    ) -> Result<Box<OpenFile>, i32> {
        let (file, flags, bytes) =
            shown_file::examine_any(shown.as_fd(), OFlags::empty(), &mut self.mounts)
                .map_err(errno_of)?;
        let access = flags & OFlags::RWMODE;
        let (can_read, can_write) = (access != OFlags::WRONLY, access != OFlags::RDONLY);
        if can_read {
            self.check_file(id, Right::Read, &file)?;
        }
        if can_write {
            self.check_file(id, Right::Write, &file)?;
        }
        let open = |flags| shown_file::reopen_for(shown, flags).map(Arc::new);
        let buffered = open(access).map_err(errno_of)?;
        let direct = open(access | OFlags::DIRECT).ok();
        if wants_direct && direct.is_none() {
            return Err(libc::EINVAL);
        }
        let may_cache = !can_write && !wants_direct && bytes > 0;
        let lease = may_cache.then(|| self.vouch(id, &buffered, &file)).flatten();
        let open = OpenFile { buffered, direct, can_read, can_write, wants_direct, lease };
        Ok(Box::new(open))
    }

    /// Without a rule a session has its own user's files, and root's has all.
    fn check_file(&self, id: ObjectId, right: Right, file: &ShownFile) -> Result<(), i32> {
        let subject = &self.session(id).map_err(|_| libc::EACCES)?.peer.subject;
        let owner = if subject.uid == 0 { 0 } else { file.owner };
        let decision =
            self.parts.config.rules.decide(subject, right, Name::File(&file.path), owner);
        if decision.is_allowed() {
            return Ok(());
        }
        info!(uid = subject.uid, path = file.path, %right, ?decision, "denied");
        Err(libc::EACCES)
    }

    /// A lease under which the file's blocks may be cached; without one the kernel reads.
    fn vouch(&mut self, id: ObjectId, fd: &OwnedFd, file: &ShownFile) -> Option<Vouched> {
        let lease = self.ask_lease(id, fd, file).ok()?;
        // After the lease has begun: nobody changes it any more.
        let status = fstat(fd).ok()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let age = now.as_secs() as i64 - status.st_ctime;
        let version = Version {
            device: status.st_dev,
            inode: status.st_ino,
            size: status.st_size.max(0) as u64,
            changed: (status.st_ctime, status.st_ctime_nsec as i64),
            only_under: (age < YOUNG_S).then_some(lease),
        };
        let held = self.delegated.as_mut()?.sessions.get_mut(&id)?;
        *held.entry(lease).or_insert(0) += 1;
        Some(Vouched { id: lease, word: self.node.lease_word(lease), version })
    }

    /// The server loop, or the opener, has news.
    pub(crate) fn attend_delegated(&mut self) {
        let Some(delegated) = &self.delegated else { return };
        let mut count = [0; 8];
        let _ = rustix::io::read(&delegated.bells.1, &mut count);
        for _ in 0..NEWS_AT_ONCE {
            let Some(news) = self.delegated.as_ref().and_then(|it| it.news.try_recv().ok()) else {
                return;
            };
            match news {
                News::Wanted(wish) => self.want(wish),
                News::Found(wish, found) => self.found(wish, found),
                News::Closed(id, file) => self.close_file(id, *file),
                News::Broken(id, how) => self.end_connection(id, how),
                News::Gone => return self.lose_server(),
            }
        }
        // More of them: the bell brings us back after the others.
        let bell = self.delegated.as_ref().map(|it| it.bells.1.clone());
        if let Some(bell) = bell {
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        }
    }

    fn want(&mut self, wish: Wish) {
        let Some(connection) = self.connections.get(wish.session) else { return };
        let subject = connection.peer.subject.clone();
        if let Some(delegated) = &self.delegated {
            delegated.opener.open(wish, subject);
        }
    }

    fn found(&mut self, wish: Wish, found: Result<OwnedFd, i32>) {
        let Wish { session, tag, access, .. } = wish;
        let is_here = self.delegated.as_ref().is_some_and(|it| it.sessions.contains_key(&session));
        let file = found.and_then(|fd| {
            let gone = Err(libc::ECONNRESET);
            let direct = access & DIRECT != 0;
            let file = if is_here { self.admit_file(session, &fd, direct) } else { gone };
            self.closer.close(fd);
            file
        });
        self.order(Order::Opened(session, Asked::ByName(tag), file));
    }

    fn order(&self, order: Order) {
        if let Some(delegated) = &self.delegated {
            delegated.order(order);
        }
    }

    /// A session, or its end, has closed a file: its lease, when no other file of it is under it.
    fn close_file(&mut self, id: ObjectId, file: OpenFile) {
        let held = self.delegated.as_mut().and_then(|it| it.sessions.get_mut(&id));
        if let (Some(held), Some(lease)) = (held, file.lease) {
            let count = held.entry(lease.id).or_insert(1);
            *count -= 1;
            if *count == 0 {
                held.remove(&lease.id);
                // Perhaps a writer has ended it already.
                let _ = self.end_lease(id, lease.id);
            }
        }
        let fds = [Some(file.buffered), file.direct].into_iter().flatten();
        // What the kernel still uses is closed when it is done.
        fds.filter_map(Arc::into_inner).for_each(|fd| self.closer.close(fd));
    }

    /// A session has ended, or lost its rights.
    pub(crate) fn end_delegated(&mut self, id: ObjectId) {
        let Some(delegated) = &mut self.delegated else { return };
        if delegated.sessions.remove(&id).is_some() {
            delegated.order(Order::End(id));
        }
    }

    /// The loop's thread has ended, which it never does by itself. Its sessions end with it; the
    /// next that asks starts another.
    fn lose_server(&mut self) {
        let Some(delegated) = self.delegated.take() else { return };
        error!(sessions = delegated.sessions.len(), "the server loop has ended");
        self.poll.ignore(&delegated.bells.1);
        for id in delegated.sessions.into_keys() {
            self.end_connection(id, "the server loop has ended");
        }
    }
}

/// Maps a window that was shown, when it is memory that cannot shrink or vanish.
fn map_window(shown: &OwnedFd, limit: u64) -> Result<Arc<SharedMapping>, Refused> {
    // Seals first: only memory files have any, so nobody but the kernel answers the rest.
    let first = SharedMapping::from_fd(shown.as_raw_fd(), PAGE_BYTES, Access::ReadWrite);
    first.map_err(|_| Code::BadRecord)?;
    let is_memory = fstatfs(shown).is_ok_and(|status| status.f_type as u64 == TMPFS_MAGIC);
    let bytes = fstat(shown).map_or(0, |status| status.st_size.max(0) as u64);
    if !is_memory {
        return Err(Code::BadRecord.into());
    }
    if bytes > limit {
        return Err(Refused { code: Code::Full, limit });
    }
    let window = SharedMapping::from_fd(shown.as_raw_fd(), bytes as usize, Access::ReadWrite);
    window.map(Arc::new).map_err(|_| Code::BadRecord.into())
}

fn make_link(
    window: Arc<SharedMapping>,
    settings: &Settings,
) -> Result<(OwnedFd, Link), heliostat_ring::RingError> {
    let fd = SharedMapping::create_fd(c"heliostat-rings", RING_BYTES)?;
    let raw = fd.as_raw_fd();
    let submissions = RingMemory::create_in(raw, 0, SUBMISSION_BYTES)?;
    let completions = RingMemory::create_in(raw, COMPLETION_AT, COMPLETION_BYTES)?;
    let link = Link {
        submissions: submissions.spsc_consumer(Refresh::Lazy)?,
        completions: completions.spsc_producer(Refresh::Lazy)?,
        bell: Arc::new(SharedMapping::map(raw, 0, PAGE_BYTES, Access::ReadWrite)?),
        window,
        rates: Rates {
            operations: settings.operations_per_second,
            bytes: settings.bytes_per_second,
        },
    };
    Ok((fd.into(), link))
}

fn errno_of(reason: Unmapped) -> i32 {
    match reason {
        Unmapped::NotRegular => libc::EINVAL,
        Unmapped::FileSystem => libc::EOPNOTSUPP,
        Unmapped::Writable | Unmapped::Written => libc::EAGAIN,
        Unmapped::Owner | Unmapped::Denied => libc::EACCES,
        Unmapped::Full => libc::ENFILE,
        _ => libc::EIO,
    }
}
