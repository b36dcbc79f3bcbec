//! fork, exec, close and exit: what becomes of direct streams when descriptors travel.
//!
//! - fork: both processes hold each end; the lanes are shared memory anyway, and from now on
//!   their side locks are taken too.
//! - exec: descriptors that stay open go native first, since the new image cannot know them.
//! - exit: streams end as close(2) would end them.
//! - A child of vfork runs in this very memory: it must not change any table, only the kernel's.

use std::sync::atomic::Ordering::AcqRel;

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_base::call;
use heliostat_client::session;

use crate::net::channel::Side;
use crate::net::early::{self, proof};
use crate::net::socket::{self, Connection, Stage, Stream};
use crate::net::watch::{early as watched_early, family, life, mark, sets};
use crate::net::{
    accept, along, carried, close, connect, connecting, delegated, demote, hold, listen,
    shared_set, side_lock, switch,
};
use crate::net::{commit, shared, unflushed};
use crate::owner::{self, is_borrowed};
use crate::table::{self, DescriptorKind};
use crate::thread::{self, Critical};
use crate::{file, flush, program_rings, report, Answer};

/// Notes whose tables these are; at start and in every forked child.
pub fn adopt() {
    owner::adopt();
    session::report_to(report::install);
    mark::begin();
}

/// Before libc forks, and before it locks its allocator: what may allocate is done now, since it
/// would wait for this very thread later.
pub fn prepare_fork() {
    if !is_borrowed() {
        let _critical = Critical::enter();
        settle_before_fork();
    }
}

/// Before a fork: every direct stream gets one more holder. What comes by libc's fork was prepared.
pub fn before_fork() {
    delegated::child_made();
    file::before_fork();
    let _critical = Critical::enter();
    family::before_fork();
    settle_before_fork();
    for (_, socket) in socket::each_live() {
        if let Some(stream) = socket.stream() {
            socket.share(&stream);
        }
    }
    // Nothing is held back from here on: no connection is this process's alone.
    if flush::is_busy() {
        commit::settle();
    }
    // The child might cut or rename what the log counts on.
    flush::forget_logged();
    hold::push_before_fork();
}

/// What one process counts two could not: an offer that nobody has taken is taken back, and a ring
/// that can be begun is begun.
fn settle_before_fork() {
    for (fd, kind) in table::walk(0, u32::MAX) {
        let DescriptorKind::Socket(index) = kind else { continue };
        let socket = socket::at(index);
        connecting::give_up(fd, index);
        accept::decide_at_last(fd, index);
        if socket.stage() == Stage::Accepted {
            proof::share_notes();
        }
        let stream = socket.stream();
        if !stream.is_some_and(|stream| early::start_and_tell(Connection::new(fd, socket, &stream)))
        {
            switch::withdraw(fd, index, Native::Forked);
        }
    }
    leave_if_lockless();
}

/// Processes that hold one stream need locks. Without memory for them all is the kernel's.
fn leave_if_lockless() {
    let direct = || {
        table::walk(0, u32::MAX).filter_map(|(fd, kind)| match kind {
            DescriptorKind::Socket(index) if socket::at(index).stream().is_some() => {
                Some((fd, index))
            }
            _ => None,
        })
    };
    if direct().next().is_some() && !side_lock::prepare() {
        direct().for_each(|(fd, index)| demote::leave_at_once(fd, index, Native::Forked));
    }
}

/// The fork failed: the holders that were to come do not.
pub fn fork_failed() {
    family::fork_failed();
    for (_, socket) in socket::each_live() {
        if let Some(stream) = socket.stream() {
            socket.unshare(&stream);
        }
    }
}

/// In the child of a fork, before anything else. libc still holds its allocator's locks here:
/// what the parent owned is forgotten, not freed, and nothing is allocated.
pub fn in_forked_child() {
    let _critical = Critical::enter();
    adopt();
    thread::forget_tid();
    report::forget_in_forked_child();
    socket::reset_in_forked_child();
    unflushed::reset_in_forked_child();
    life::reset_in_forked_child();
    connect::reset_in_forked_child();
    connecting::reset_in_forked_child();
    delegated::reset_in_forked_child();
    session::forget_in_forked_child();
    listen::reset_in_forked_child();
    accept::later::reset_in_forked_child();
    proof::reset_in_forked_child();
    file::in_forked_child();
    program_rings::reset_in_forked_child();
}

/// Before the kernel closes `fd`; `Some` refuses because the descriptor is the stub's own.
pub fn closing(fd: i32) -> Answer {
    if session::owns(fd) || flush::owns(fd) || shared::owns(fd) {
        return crate::fail(libc::EBADF);
    }
    if table::kind(fd) == DescriptorKind::Hidden {
        return crate::fail(libc::EBADF);
    }
    program_rings::closing(fd);
    if table::file(fd) != 0 {
        file::closing(fd);
        return None;
    }
    // Whose child this is costs a system call.
    if (table::is_unknown(fd) && !shared::may_remember(fd)) || is_borrowed() {
        return None;
    }
    let _critical = Critical::enter();
    shared::forget(fd);
    accept::later::forget(fd);
    match table::take(fd) {
        DescriptorKind::Socket(index) => close::closing(fd, index),
        DescriptorKind::Listener(index) => {
            shared::closing(fd);
            listen::closing(index);
        }
        DescriptorKind::Epoll(index) => life::closing(index),
        DescriptorKind::Early => watched_early::forget(fd),
        DescriptorKind::Unknown | DescriptorKind::Polled | DescriptorKind::Hidden => {}
    }
    None
}

/// close_range(2): closes what is known one by one, and spares the stub's own descriptors by
/// naming the ranges around them.
pub fn closing_range(first: u32, last: u32) -> Vec<(u32, u32)> {
    if !is_borrowed() {
        let known: Vec<i32> = table::walk(first, last).map(|(fd, _)| fd).collect();
        known.into_iter().for_each(|fd| {
            closing(fd);
        });
        table::walk_files(first, last).for_each(|(fd, _)| file::closing(fd));
        program_rings::closing_range(first, last);
        shared::forget_range(first, last);
    }
    let own = session::control_fd().into_iter().chain(flush::own_fds());
    let mut own: Vec<u32> = own.chain(delegated::owned()).collect();
    own.extend(shared::own_fds());
    own.sort_unstable();
    let mut ranges = vec![(first, last)];
    for own in own {
        ranges = ranges.into_iter().flat_map(|range| around(own, range)).collect();
    }
    ranges
}

/// What is left of a range without one number.
fn around(own: u32, (first, last): (u32, u32)) -> impl Iterator<Item = (u32, u32)> {
    let is_within = first <= own && own <= last;
    let below = own.checked_sub(1).filter(|end| *end >= first).map(|end| (first, end.min(last)));
    let above = (own < last).then(|| (own.saturating_add(1), last));
    let parts = match is_within {
        true => [below, above],
        false => [Some((first, last)), None],
    };
    parts.into_iter().flatten()
}

/// Before dup, dup2, dup3 or F_DUPFD. A child of vfork does so for a program that it executes.
pub fn duplicating(old: i32) {
    if let DescriptorKind::Socket(index) = table::kind(old) {
        if carried::is_carried(socket::at(index)) && is_borrowed() {
            along::take_along(old, index);
        }
    }
}

/// After dup, dup2, dup3 or F_DUPFD made `new` from `old`. `is_kept` unless exec closes it.
pub fn duplicated(old: i32, new: i32, is_kept: bool) {
    file::duplicated(old, new, is_kept);
    if old == new || is_borrowed() {
        return;
    }
    let kind = table::kind(old);
    match kind {
        DescriptorKind::Socket(index) => socket::at(index).retain(),
        DescriptorKind::Listener(index) => {
            listen::retain(index);
            shared::duplicated(old, new);
        }
        DescriptorKind::Epoll(index) => sets::retain(index),
        DescriptorKind::Early => return now_native(old, new),
        DescriptorKind::Unknown | DescriptorKind::Polled | DescriptorKind::Hidden => return,
    }
    table::set(new, kind);
}

/// A socket of two descriptors that is in epoll sets and not connected: what the kernel's sets say of
/// it is not told apart by descriptor.
fn now_native(old: i32, new: i32) {
    watched_early::forget(old);
    table::set(old, DescriptorKind::Polled);
    table::set(new, DescriptorKind::Polled);
}

/// Before dup2 and dup3 close what `new` is.
pub fn replacing(old: i32, new: i32) {
    if old != new {
        session::vacate(new);
        flush::vacate(new);
        vacate(new);
        shared::vacate(new);
        closing(new);
    }
}

/// Before execve(2): what the new image keeps goes native. True when `exec_failed` has to be called
/// should it return.
pub fn before_exec() -> bool {
    let comes_back = file::before_exec();
    let known: Vec<(i32, DescriptorKind)> = table::walk(0, u32::MAX).collect();
    for (fd, kind) in known {
        match kind {
            DescriptorKind::Socket(index) if !stays_open(fd) => give_holder_back(index),
            DescriptorKind::Socket(index)
                if carried::is_carried(socket::at(index)) && is_borrowed() =>
            {
                along::take_along(fd, index);
            }
            DescriptorKind::Socket(index) => {
                demote::leave(fd, index, Native::Exec);
                if !is_borrowed() {
                    close::executing(index);
                }
            }
            DescriptorKind::Epoll(index) if !stays_open(fd) => family::give_back(index),
            DescriptorKind::Listener(_) if stays_open(fd) && is_borrowed() => {
                shared::give_back_borrowed(fd);
            }
            DescriptorKind::Listener(_) if stays_open(fd) => shared::give_back(fd),
            _ => {}
        }
    }
    if is_borrowed() {
        // A vfork child may have put a socket where its table, ours, knows nothing of it.
        demote_renamed();
    }
    comes_back
}

/// After an execve(2) that came back.
pub fn exec_failed() {
    family::exec_failed();
    file::exec_failed();
}

/// exec(2) will close the descriptor without asking us. A vfork child never was a holder.
fn give_holder_back(index: u32) {
    let socket = socket::at(index);
    if is_borrowed() || socket.holder_given.swap(true, AcqRel) {
        return;
    }
    if let Some(stream) = socket.stream() {
        socket.let_go(&stream);
        // What is sent is the kernel's, and so is the end.
        match socket.stage() {
            Stage::Offered => _ = stream.slot.withdraw() || stream.slot.retreat(),
            Stage::Accepted if !socket.is_shared() => _ = stream.slot.revoke(),
            _ => {}
        }
    }
}

fn stays_open(fd: i32) -> bool {
    call::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags as i32 & libc::FD_CLOEXEC == 0)
}

/// Standard descriptors that a vfork child made by dup2 from one of our sockets. The child may
/// have closed the original, so they are recognised by the addresses of their two ends.
fn demote_renamed() {
    for fd in 0..3 {
        along::take_renamed_along(fd);
        let Some(local) = call::local_address(fd).map(NetAddress::new) else { continue };
        let Some(peer) = call::peer_address(fd).map(NetAddress::new) else { continue };
        let is_it = |stream: &Stream| {
            let client = if stream.side == Side::Client { local } else { peer };
            stream.slot.offered_by().is_some_and(|(offered, _)| offered == client)
        };
        let found = socket::each_live()
            .find(|(_, socket)| socket.stream().as_ref().is_some_and(is_it))
            .map(|(index, _)| index);
        if let Some(index) = found {
            demote::leave(fd, index, Native::Exec);
        }
    }
}

/// Gives the number `fd`, one of ours, up because the program wants it (dup2).
fn vacate(fd: i32) {
    if table::kind(fd) != DescriptorKind::Hidden {
        return;
    }
    let descriptor = table::walk(0, u32::MAX).find_map(|(number, kind)| match kind {
        DescriptorKind::Socket(index) if carried::socket_of(index) == Some(fd) => {
            Some((number, index))
        }
        _ => None,
    });
    match descriptor {
        Some((number, index)) => demote::leave_at_once(number, index, Native::NoDescriptors),
        None => delegated::forget_link(fd),
    }
    delegated::close_hidden(fd);
}

/// Before exit_group(2): every stream ends in good order.
pub fn before_exit() {
    if is_borrowed() {
        return;
    }
    family::exiting();
    for (fd, kind) in table::walk(0, u32::MAX) {
        if let (DescriptorKind::Socket(index), DescriptorKind::Socket(_)) = (kind, table::take(fd))
        {
            if socket::at(index).release() {
                close::exiting(fd, index);
            }
            // The kernel ends the shadow now, in order, so that no bell comes in between.
            let _ = call::close(fd);
        }
    }
}

/// Before a descriptor travels in a message (SCM_RIGHTS): it goes native, and so does what is in an
/// epoll set.
pub fn passing(fd: i32) {
    file::passing(fd);
    match table::kind(fd) {
        DescriptorKind::Socket(index) if !is_borrowed() => demote::leave(fd, index, Native::Passed),
        DescriptorKind::Early if !is_borrowed() => now_native(fd, fd),
        DescriptorKind::Listener(_) if !is_borrowed() => shared::give_back(fd),
        DescriptorKind::Epoll(index) if !is_borrowed() => {
            shared_set::leave_to_kernel(index, Native::SharedSet)
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn a_number_is_left_out_of_the_ranges_that_hold_it() {
        type Range = (u32, u32);
        let cases: [(u32, Range, &[Range]); 6] = [
            (5, (3, u32::MAX), &[(3, 4), (6, u32::MAX)]),
            (3, (3, 9), &[(4, 9)]),
            (9, (3, 9), &[(3, 8)]),
            (0, (0, 0), &[]),
            (2, (3, 9), &[(3, 9)]),
            (10, (3, 9), &[(3, 9)]),
        ];
        for (own, range, expected) in cases {
            assert_eq!(around(own, range).collect::<Vec<_>>(), expected, "{range:?} without {own}");
        }
    }
}
