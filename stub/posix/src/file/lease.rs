//! From a description to a mapping under a lease, and back.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use heliostat_abi::code::Unmapped;
use heliostat_abi::session::report::Counter;
use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Guard;
use heliostat_base::{call, clock, memory_limits};

use super::description::{File, LeaseState};
use super::requests::{self, Lease};
use super::{FAULTS, MAPPED, READS_FIRST};
use crate::{owner, report, thread};

/// Less of a file in memory than this, and the kernel's own reading ahead is better.
const PERCENT_IN_MEMORY_MIN: u32 = 75;
/// A mapping that has lasted this long was worth its question.
const WORTH_NS: u64 = 100_000_000;
/// The pause after a refusal is at most this often doubled.
const DOUBLINGS_MAX: u32 = 14;

/// A page that is mapped, read once and unmapped costs what a short read of it saves: some 0.27 us
/// (1320 faults of 16 pages and one munmap of 84 MiB; bench in docs/files.md). So a file has to be
/// read about as often as it has pages before it is mapped: a single scan stays the kernel's.
const PAGE_BYTES: u64 = 4096;
const PAGE_COST: u64 = 8;

/// Threads of this process that are in execve(2): no offset is taken over meanwhile.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Why a question ended without a mapping.
enum No {
    /// Perhaps later.
    Later(Unmapped),
    /// Never: the descriptor is not of a kind that is mapped.
    Never(Unmapped),
}

/// Asks for a lease and maps the file. `Err(true)` when a descriptor of this kind is never mapped and
/// need not be remembered, `Err(false)` when it may be later. In a critical section.
pub fn ask(fd: i32, file: &File) -> Result<(), bool> {
    let mut held = file.held.lock();
    if file.view.holds() {
        return Ok(());
    }
    leave(fd, file, &mut held);
    match try_map(fd, file, &mut held) {
        Ok(()) => Ok(()),
        Err(No::Later(reason)) => {
            refused(file, &mut held, reason);
            Err(false)
        }
        Err(No::Never(reason)) => {
            report::count_unmapped(reason);
            Err(true)
        }
    }
}

fn try_map(fd: i32, file: &File, held: &mut LeaseState) -> Result<(), No> {
    let bytes = check_kind(fd).map_err(No::Never)?;
    let is_first = held.pages_cost == 0;
    held.pages_cost = pages_cost(bytes);
    if is_first && held.pages_cost > READS_FIRST {
        return Err(No::Later(Unmapped::TooFew));
    }
    if owner::is_borrowed() {
        return Err(No::Later(Unmapped::Shared));
    }
    if memory_limits::is_limited() || memory_limits::is_locked() {
        return Err(No::Later(Unmapped::NoMemory));
    }
    if call::is_record_locked(fd) {
        return Err(No::Later(Unmapped::Locked));
    }
    if !FAULTS.get().is_some_and(|ready| ready()) {
        return Err(No::Later(Unmapped::NoSignals));
    }
    let lease = requests::lease(fd).map_err(No::Later)?;
    let mapped = map(file, &lease);
    if mapped.is_err() {
        requests::end_lease(lease.id, lease.epoch);
    } else {
        held.lease = Some((lease.id, lease.epoch));
        held.since_ns = clock::monotonic_ns();
        report::count(Counter::FilesMapped);
    }
    let_go(lease.file, held);
    mapped.map_err(No::Later)
}

/// Closes the descriptor that came with a lease. That would end every record lock that this process
/// has on the file (fcntl(2): any descriptor of it will do), so a file with locks was not asked for;
/// where another thread has just taken one, the descriptor stays until the program closes its own,
/// which ends them all the same.
fn let_go(file: OwnedFd, held: &mut LeaseState) {
    if call::is_record_locked(file.as_raw_fd()) {
        held.kept.push_back(file);
    }
}

/// Reads, in eighths, that pay for mapping so much of a file.
fn pages_cost(bytes: u64) -> u32 {
    (bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_COST)).min(u64::from(u32::MAX)) as u32
}

/// What is not opened for reading only, or is no file with bytes, is never mapped; else how many.
fn check_kind(fd: i32) -> Result<u64, Unmapped> {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).map_err(|_| Unmapped::NotRegular)? as i32;
    if flags & (libc::O_ACCMODE | libc::O_PATH | libc::O_DIRECT) != 0 {
        return Err(Unmapped::Writable);
    }
    match call::mode_and_bytes(fd) {
        Some((mode, bytes)) if mode & libc::S_IFMT == libc::S_IFREG && bytes > 0 => Ok(bytes),
        _ => Err(Unmapped::NotRegular),
    }
}

fn map(file: &File, lease: &Lease) -> Result<(), Unmapped> {
    let bytes = usize::try_from(lease.bytes).map_err(|_| Unmapped::NoMemory)?;
    if bytes == 0 {
        return Err(Unmapped::NotRegular);
    }
    let mapped = file.view.map(lease.file.as_raw_fd(), bytes, lease.active, lease.life);
    mapped.map_err(|_| Unmapped::NoMemory)?;
    MAPPED.fetch_add(1, SeqCst);
    if file.view.percent_in_memory() < PERCENT_IN_MEMORY_MIN {
        unmap(file);
        return Err(Unmapped::Cold);
    }
    Ok(())
}

fn unmap(file: &File) {
    file.view.unmap();
    MAPPED.fetch_sub(1, SeqCst);
}

/// Leaves the mapping if its lease has ended; true when it still holds. In a critical section.
pub fn check(fd: i32, file: &File) -> bool {
    if file.view.holds() {
        return true;
    }
    let mut held = file.held.lock();
    let is_late = file.view.holds() || !file.view.is_mapped();
    if !is_late {
        leave(fd, file, &mut held);
        refused(file, &mut held, Unmapped::Broken);
    }
    file.view.holds()
}

/// Ends a mapping whose lease does not hold any more: the offset is the kernel's again first, so
/// that none is ours without a mapping.
fn leave(fd: i32, file: &File, held: &mut Guard<'_, LeaseState>) {
    if !file.view.is_mapped() {
        return;
    }
    file.position.0.give_back(fd, false);
    unmap(file);
    if clock::monotonic_ns() - held.since_ns > WORTH_NS {
        held.doublings = 0;
    }
    report::count(Counter::FilesLeft);
    give_lease_back(held);
}

/// The last descriptor is closed. In a critical section.
pub fn end(file: &File) {
    let mut held = file.held.lock();
    if file.view.is_mapped() {
        unmap(file);
    }
    give_lease_back(&mut held);
    held.kept.clear();
}

fn give_lease_back(held: &mut LeaseState) {
    if let Some((lease, epoch)) = held.lease.take() {
        requests::end_lease(lease, epoch);
    }
}

/// The next question comes after a pause, in reads by the kernel, that doubles.
fn refused(file: &File, held: &mut LeaseState, reason: Unmapped) {
    if held.reason != reason {
        report::count_unmapped(reason);
        held.reason = reason;
    }
    if reason == Unmapped::TooFew {
        return file.ask_after(held.pages_cost);
    }
    held.doublings = (held.doublings + 1).min(DOUBLINGS_MAX);
    file.ask_after((READS_FIRST << held.doublings).max(held.pages_cost));
}

/// Takes the offset over, if it can be; true when it is ours. In a critical section.
pub fn adopt(fd: i32, file: &File) -> bool {
    if file.position.0.is_shared() || thread::is_in_handler() {
        return false;
    }
    let _held = file.held.lock();
    LEAVING.load(SeqCst) == 0
        && file.view.holds()
        && !owner::is_borrowed()
        && file.position.0.adopt(fd)
}

/// A thread is about to leave by execve(2).
pub fn begin_leaving() {
    LEAVING.fetch_add(1, SeqCst);
}

/// That execve(2) came back.
pub fn end_leaving() {
    LEAVING.fetch_sub(1, SeqCst);
}

/// In the child of a fork: its parent's threads are not here.
pub fn forget_leaving() {
    LEAVING.store(0, SeqCst);
}

/// True when nothing is mapped in this process.
pub fn is_none_mapped() -> bool {
    MAPPED.load(Relaxed) == 0
}
