//! Listening sockets: registered by their bound address, channels attached when they appear.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::Arc;

use heliostat_abi::code::Native;
use heliostat_abi::name::ObjectId;
use heliostat_base::lock::Lock;
use heliostat_client::session::{self, Standing};

use super::channel::Channel;
use super::{kernel, report_line, requests, shadow, shared, watch};
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;

/// Listening sockets of one process.
const LISTENERS_MAX: usize = 1024;
/// Replies taken in one go; more channels come with the next accept.
const ATTACH_ROUNDS_MAX: usize = 64;

static LISTENERS: Lock<Vec<Option<Listener>>> = Lock::new(Vec::new());
/// Descriptors above this that come with exec are seen when the program first uses them.
const INHERITED_MAX: i32 = 64;
/// Set in a forked child that inherited listeners, which its own session has to register, or
/// connections, which its own report has to list; and in a program that was just executed.
static RENEWAL_IS_DUE: AtomicBool = AtomicBool::new(false);
/// What came with exec has not been looked at.
static EXEC_IS_UNSEEN: AtomicBool = AtomicBool::new(false);

struct Listener {
    port: ObjectId,
    /// Session of ours that registered it; another one has to register anew.
    epoch: u64,
    /// The address's word when channels were last attached.
    seen: u32,
    channels: Vec<Arc<Channel>>,
    descriptors: u32,
}

/// After listen(2) succeeded on `fd`.
pub fn listening(fd: i32) {
    if matches!(table::kind(fd), DescriptorKind::Listener(_))
        || !crate::is_enabled()
        || !kernel::is_tcp(fd)
    {
        return shared::end_bound(fd);
    }
    let _critical = Critical::enter();
    match register(fd) {
        Ok(_) => shared::join(fd),
        Err(_) => shared::end_bound(fd),
    }
}

/// At the start of a program: listening sockets that come with it (inetd, socket activation, a
/// server that executes itself anew) are looked for before it first waits or changes its user.
pub fn executed() {
    EXEC_IS_UNSEEN.store(true, Relaxed);
    RENEWAL_IS_DUE.store(true, Relaxed);
}

/// Before accept(2), or a place in an epoll set: registers a listening socket that nobody saw coming
/// (inherited over exec, received in a message), so that its first client finds it. True for one that
/// listens, also where it could not be registered: it may be later, and be shared then.
#[cold]
pub fn noticed(fd: i32) -> bool {
    renew_if_due();
    if matches!(table::kind(fd), DescriptorKind::Listener(_)) {
        shared::ready(fd);
        return true;
    }
    if !crate::is_enabled() || !kernel::is_listening(fd) {
        return false;
    }
    let _critical = Critical::enter();
    let _ = register_unseen(fd);
    shared::ready(fd);
    true
}

/// A listening socket on which nobody here saw what was set.
fn register_unseen(fd: i32) -> Result<u32, Native> {
    shadow::options::set_elsewhere();
    let index = register(fd)?;
    shared::join(fd);
    Ok(index)
}

/// Sockets that share an address (SO_REUSEPORT) share its registration: the control plane hands a
/// channel to a session once, and takes one Unlisten. Under the lock from asking to noting, so
/// that no other socket's end takes the registration back in between.
fn register(fd: i32) -> Result<u32, Native> {
    let mut listeners = LISTENERS.lock();
    let (port, _address) = requests::listen(fd)?;
    let epoch = requests::standing()?.epoch;
    let is_same = |known: &Listener| known.port == port && known.epoch == epoch;
    let shared = listeners.iter().position(|known| known.as_ref().is_some_and(is_same));
    let index = match shared.or_else(|| listeners.iter().position(Option::is_none)) {
        Some(index) => index,
        None if listeners.len() < LISTENERS_MAX => {
            listeners.push(None);
            listeners.len() - 1
        }
        None => return Err(Native::TableFull),
    };
    let fresh = Listener { port, epoch, seen: 0, channels: Vec::new(), descriptors: 0 };
    listeners[index].get_or_insert(fresh).descriptors += 1;
    if table::kind(fd) == DescriptorKind::Early {
        watch::early::forget(fd);
    }
    table::set(fd, DescriptorKind::Listener(index as u32));
    Ok(index as u32)
}

/// Channels in which an offer for a connection just accepted on `fd` may lie, and our session.
pub fn channels(fd: i32) -> Result<(Vec<Arc<Channel>>, Standing), Native> {
    let index = match table::kind(fd) {
        DescriptorKind::Listener(index) => index,
        // The control plane was away when it was set up.
        _ if crate::is_enabled() && kernel::is_tcp(fd) => register(fd)?,
        _ => return Err(Native::Protocol),
    };
    let standing = requests::standing()?;
    if let Some(channels) = channels_as_before(fd, index, &standing) {
        return Ok((channels, standing));
    }
    renew(fd, index, &standing)?;
    attach(index, &standing)?;
    let listeners = LISTENERS.lock();
    let found = listeners.get(index as usize).and_then(Option::as_ref);
    Ok((found.ok_or(Native::NoOffer)?.channels.clone(), standing))
}

/// Where nothing has changed since the last look, which is so for almost every connection of a remote peer.
fn channels_as_before(fd: i32, index: u32, standing: &Standing) -> Option<Vec<Arc<Channel>>> {
    if shared::is_shared(fd) {
        return None; // its registration may be due
    }
    let listeners = LISTENERS.lock();
    let listener = listeners.get(index as usize)?.as_ref()?;
    let is_same =
        listener.epoch == standing.epoch && standing.node.port(listener.port) == listener.seen;
    is_same.then(|| listener.channels.clone())
}

/// Called before a process waits: a worker that was forked with listeners registers them before the
/// first client comes, not after it, and one that was forked with connections lists them. One load
/// when there is nothing to do.
#[inline]
pub fn renew_if_due() {
    if RENEWAL_IS_DUE.load(Relaxed) {
        renew_all();
    }
}

#[cold]
fn renew_all() {
    let _critical = Critical::enter();
    if !RENEWAL_IS_DUE.swap(false, AcqRel) {
        return;
    }
    if EXEC_IS_UNSEEN.swap(false, AcqRel) {
        register_inherited();
    }
    report_line::list_inherited();
    for (fd, kind) in table::walk(0, u32::MAX) {
        let DescriptorKind::Listener(index) = kind else { continue };
        let Ok(standing) = session::standing() else { return };
        let _ = renew(fd, index, &standing);
    }
}

/// Asks of the lowest descriptors whether they listen. Who has none does not greet.
fn register_inherited() {
    if !crate::is_enabled() {
        return;
    }
    for fd in 0..INHERITED_MAX {
        if table::is_unknown(fd) && kernel::is_listening(fd) {
            let _ = register_unseen(fd);
        }
    }
}

/// Registers anew when our session is another one than the one that registered (fork, restart).
fn renew(fd: i32, index: u32, standing: &Standing) -> Result<(), Native> {
    let mut listeners = LISTENERS.lock();
    let Some(Some(listener)) = listeners.get_mut(index as usize) else { return Ok(()) };
    if listener.epoch == standing.epoch {
        drop(listeners);
        if shared::is_shared(fd) {
            shared::renew(fd, standing.epoch);
        }
        return Ok(());
    }
    listener.port = requests::listen(shared::listening_socket(fd).unwrap_or(fd))?.0;
    listener.epoch = standing.epoch;
    listener.seen = 0;
    drop(listeners);
    shared::renew(fd, standing.epoch);
    Ok(())
}

/// Attaches channels that appeared since the last look; drops those whose client is gone.
fn attach(index: u32, standing: &Standing) -> Result<(), Native> {
    let mut listeners = LISTENERS.lock();
    let Some(Some(listener)) = listeners.get_mut(index as usize) else { return Ok(()) };
    let word = standing.node.port(listener.port);
    if word == listener.seen {
        return Ok(());
    }
    listener.channels.retain(|channel| channel.offers() != 0 || channel.is_alive());
    for _ in 0..ATTACH_ROUNDS_MAX {
        let answer = requests::attach(listener.epoch, listener.port)?;
        for (entry, fd) in &answer.entries {
            listener.channels.extend(Channel::map(*entry, fd, &standing.node));
        }
        if !answer.more {
            break;
        }
    }
    listener.seen = word;
    Ok(())
}

/// This process takes part no more: nobody shall offer it streams.
pub fn withdraw_all() {
    let _critical = Critical::enter();
    for (fd, _) in
        table::walk(0, u32::MAX).filter(|(_, kind)| matches!(kind, DescriptorKind::Listener(_)))
    {
        withdraw(fd);
    }
}

/// Connections of `fd` will be accepted where no stub sees it: nobody shall offer it streams.
pub fn withdraw(fd: i32) {
    let _critical = Critical::enter();
    shared::give_back(fd);
    if let DescriptorKind::Listener(index) = table::take(fd) {
        closing(index);
    }
}

/// One more descriptor refers to it (dup).
pub fn retain(index: u32) {
    if let Some(Some(listener)) = LISTENERS.lock().get_mut(index as usize) {
        listener.descriptors += 1;
    }
}

/// Before the kernel closes one of its descriptors.
pub fn closing(index: u32) {
    let mut listeners = LISTENERS.lock();
    let Some(place) = listeners.get_mut(index as usize) else { return };
    let Some(listener) = place else { return };
    listener.descriptors -= 1;
    if listener.descriptors == 0 {
        let (epoch, port) = (listener.epoch, listener.port);
        *place = None;
        requests::unlisten(epoch, port);
    }
}

/// In the child of a fork: the channels have to be attached by the child's own session.
pub fn reset_in_forked_child() {
    LISTENERS.reset_in_forked_child();
    shared::reset_in_forked_child();
    for listener in LISTENERS.lock().iter_mut().flatten() {
        listener.epoch = 0;
        std::mem::forget(std::mem::take(&mut listener.channels));
        RENEWAL_IS_DUE.store(true, Relaxed);
    }
    if super::socket::each_live().next().is_some() {
        RENEWAL_IS_DUE.store(true, Relaxed);
    }
}
