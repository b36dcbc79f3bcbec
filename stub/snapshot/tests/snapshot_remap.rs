//! Memory that is remapped, at its borders: other handlers of SIGSEGV, forks, kills, limits.

mod support;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::time::Duration;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_backend_pages::remap::RemapError;
use heliostat_base::fd::OwnedFd;
use heliostat_stub_snapshot::{
    Attachment, PublishError, Region, RegionError, Settings, PAGE_BYTES,
};
use support::child::{forked, kill, waited};
use support::region::{attach, content};

const BYTES: usize = 3 * CHUNK_BYTES;

fn allocated() -> Region {
    Region::allocate(BYTES, Settings::default()).unwrap()
}

fn store(region: &Region, at: usize, value: u8) {
    let (start, length) = region.memory().unwrap();
    assert!(at < length);
    // SAFETY: inside the region's memory, which lives as long as the reference.
    unsafe { start.add(at).write_volatile(value) };
}

/// Makes a fault that is nobody's.
fn crash() {
    // SAFETY: none: it is to fault, which is all that it does.
    unsafe { std::ptr::without_provenance_mut::<u8>(64).write_volatile(1) };
}

extern "C" fn end_with_42(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: _exit takes no pointer and does not return.
    unsafe { libc::_exit(42) };
}

fn handle_segv(handler: usize) {
    // SAFETY: all-zero bytes are a valid action, and `handler` is one that takes three arguments,
    // or SIG_IGN.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, libc::SA_SIGINFO);
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_fault_elsewhere_goes_to_the_handler_that_was_there() {
    let child = forked(|| {
        handle_segv(end_with_42 as *const () as usize);
        let mut region = allocated();
        let (consumer, _) = attach(&mut region);
        region.publish().unwrap();
        store(&region, 5, 1);
        region.publish().unwrap();
        assert_eq!(content(&consumer.latest().unwrap())[5], 1);
        crash();
        false
    });
    assert_eq!(libc::WEXITSTATUS(waited(child)), 42);
}

#[test]
fn a_fault_elsewhere_ends_a_program_without_a_handler_of_its_own() {
    let child = forked(|| {
        let mut region = allocated();
        region.publish().unwrap();
        store(&region, 5, 1);
        crash();
        false
    });
    assert_eq!(libc::WTERMSIG(waited(child)), libc::SIGSEGV);
}

#[test]
fn publishing_is_refused_once_another_handler_has_taken_our_place() {
    let child = forked(|| {
        let mut region = allocated();
        region.publish().unwrap();
        store(&region, 5, 1);
        handle_segv(end_with_42 as *const () as usize);
        let lost = RemapError::HandlerLost;
        assert_eq!(region.publish(), Err(PublishError::Remap(lost)));
        let another = Region::allocate(BYTES, Settings::default()).map(drop);
        another == Err(RegionError::Remap(lost))
    });
    assert_eq!(waited(child), 0);
}

#[test]
fn a_forked_child_can_neither_publish_nor_touch_the_memory() {
    let mut region = allocated();
    let (consumer, _) = attach(&mut region);
    store(&region, 5, 1);
    region.publish().unwrap();
    let forked_error = PublishError::Remap(RemapError::Forked);
    let child = forked(|| region.publish() == Err(forked_error));
    assert_eq!(waited(child), 0);
    let child = forked(|| {
        store(&region, 5, 2);
        true
    });
    assert_eq!(libc::WTERMSIG(waited(child)), libc::SIGSEGV);
    store(&region, 5, 3);
    assert_eq!(content(&consumer.latest().unwrap())[5], 1);
}

/// Writes every page and publishes, for ever; tells its descriptors first.
fn produce(mut say: impl Write) -> bool {
    let mut region = allocated();
    let (table, pool) = region.descriptors();
    let numbers = [table.as_raw_fd() as u8, pool.as_raw_fd() as u8];
    say.write_all(&numbers).unwrap();
    for number in 1..u64::MAX {
        (0..BYTES).step_by(PAGE_BYTES).for_each(|at| store(&region, at, number as u8));
        assert_eq!(region.publish().unwrap().number, number);
    }
    true
}

#[test]
fn a_producer_that_is_killed_while_a_chunk_is_copied_leaves_its_last_version_whole() {
    for pause_ms in [1, 3, 7, 12, 20] {
        let (mut told, say) = std::io::pipe().unwrap();
        let producer = forked(|| produce(say));
        let mut numbers = [0; 2];
        told.read_exact(&mut numbers).unwrap();
        let [table, pool] = numbers.map(|number| {
            let file = std::fs::File::open(format!("/proc/{producer}/fd/{number}")).unwrap();
            // SAFETY: just opened, and nobody else's.
            unsafe { OwnedFd::adopt(file.into_raw_fd()) }
        });
        // Not announced: the producer is killed before anything is pinned, and wakes nobody.
        let consumer = Attachment::new(&table, pool, |_| Ok::<(), Infallible>(()));
        let consumer = consumer.unwrap().unwrap();
        while consumer.latest_number() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        kill(producer, libc::SIGKILL);
        waited(producer);
        let version = consumer.latest().unwrap();
        let bytes = content(&version);
        let stamps = bytes.iter().step_by(PAGE_BYTES);
        assert!(stamps.into_iter().all(|stamp| *stamp == version.number() as u8), "torn");
    }
}

#[test]
fn the_pool_takes_what_was_used_and_limits_are_kept() {
    let mut region = allocated();
    store(&region, 5, 1);
    region.publish().unwrap();
    store(&region, CHUNK_BYTES, 1);
    let taken = region.metrics().pool_bytes as usize;
    // At least the page written first and the chunk copied; never more than all slots.
    assert!((CHUNK_BYTES..=4 * BYTES).contains(&taken), "{taken}");
    let few = Settings { colours: 2, ..Settings::default() };
    assert_eq!(Region::allocate(BYTES, few).map(drop), Err(RegionError::Shape));
    assert!(matches!(Region::allocate(1 << 36, Settings::default()), Err(RegionError::Remap(_))));
    let all: Vec<_> =
        (0..64).map_while(|_| Region::allocate(1, Settings::default()).ok()).collect();
    let more = Region::allocate(1, Settings::default()).map(drop);
    assert_eq!(more, Err(RegionError::Remap(RemapError::Full { limit: 64 })), "{}", all.len());
}
