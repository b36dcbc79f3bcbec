use heliostat_base::membarrier;

use super::*;

fn page() -> Arc<SharedMapping> {
    Arc::new(SharedMapping::create(c"presence", PRESENCE_BYTES).unwrap().1)
}

/// A page as both sides see it, with and without fences by the kernel.
fn each(test: impl Fn(Presence, Watch)) {
    for is_fenced in [false, membarrier::register().is_ok()] {
        let page = page();
        let program = Presence::new(page.clone(), is_fenced).unwrap().unwrap();
        test(program, Watch::new(page, is_fenced).unwrap());
    }
}

fn handle(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

#[test]
fn a_region_is_quiet_when_everybody_has_left_it() {
    each(|page, watch| {
        let quiet = |index| watch.is_quiet(handle(index), &Fence::made());
        let (one, stay) = (page.enter(Row::own(), handle(1)), page.stay(handle(1)));
        let within = page.enter(Row::own(), handle(1));
        assert!(!quiet(1) && quiet(2));
        drop(one);
        drop(stay);
        assert!(!quiet(1));
        drop(within);
        assert!(quiet(1));
        let shared = page.enter(Row::SHARED, handle(1));
        assert!(!quiet(1));
        drop(shared);
        assert!(quiet(1));
    });
}

#[test]
fn threads_are_counted_each_and_stays_end_in_any() {
    each(|page, watch| {
        let meet = std::sync::Barrier::new(21);
        let stays: Vec<_> = std::thread::scope(|scope| {
            let one = || {
                let present = page.enter(Row::own(), handle(3));
                meet.wait();
                meet.wait();
                drop(present);
                page.stay(handle(3))
            };
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(one)).collect();
            meet.wait();
            assert!(!watch.is_quiet(handle(3), &Fence::made()));
            meet.wait();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(!watch.is_quiet(handle(3), &Fence::made()));
        drop(stays);
        assert!(watch.is_quiet(handle(3), &Fence::made()));
    });
}

#[test]
fn a_child_of_a_fork_takes_nothing_of_its_parents_and_is_counted_itself() {
    each(|page, watch| {
        let (one, stay) = (page.enter(Row::own(), handle(1)), page.stay(handle(1)));
        drop(one);
        // SAFETY: the child writes counters, takes no lock of another thread, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(stay);
            std::mem::forget(page.enter(Row::own(), handle(2)));
            // SAFETY: ends this process without anything else being run.
            unsafe { libc::_exit(0) }
        }
        // SAFETY: no status is asked for.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        assert!(!watch.is_quiet(handle(1), &Fence::made()), "the parent stays");
        drop(stay);
        assert!(watch.is_quiet(handle(1), &Fence::made()));
        assert!(!watch.is_quiet(handle(2), &Fence::made()));
        let shared = shared_counter_at(handle(2));
        assert_eq!(page.0.counter(shared).load(Relaxed), 1, "where additions are locked");
    });
}

#[test]
fn without_the_fence_that_was_agreed_upon_nobody_is_said_to_have_left() {
    let page = page();
    let fence = Fence { is_heavy: false };
    assert!(!Watch::new(page.clone(), true).unwrap().is_quiet(handle(1), &fence));
    assert!(Watch::new(page, false).unwrap().is_quiet(handle(1), &fence));
}

#[test]
fn a_page_that_says_nonsense_is_read_no_further_than_it_is_long() {
    let page = page();
    shared_u64(page.atomic_u64(ROWS_IN_USE)).store(u64::MAX, Relaxed);
    assert!(Watch::new(page, false).unwrap().is_quiet(handle(511), &Fence::made()));
    let short = Arc::new(SharedMapping::create(c"short", 4096).unwrap().1);
    assert!(Watch::new(short.clone(), false).is_none());
    assert!(Presence::new(short, false).unwrap().is_none());
}

/// Additions of two threads to a place that another one moves: none is lost.
#[test]
fn nothing_is_written_where_a_region_was_once_it_has_moved() {
    use heliostat_abi::memory::page::{State, HEADER_BYTES};

    use crate::region_page::RegionPage;

    const MOVES: u32 = 100;
    each(|page, watch| {
        let words = SharedMapping::create(c"regions", HEADER_BYTES + 4096).unwrap().1;
        let words = RegionPage::new(Arc::new(words));
        let region = handle(1);
        // Even epochs lie in one place, odd ones in the other.
        let places = [AtomicU64::new(0), AtomicU64::new(0)];
        words.set(region, State::Live, 0);
        let stop = AtomicU64::new(0);
        let written: u64 = std::thread::scope(|scope| {
            let write = || {
                let mut written = 0;
                while stop.load(Relaxed) == 0 {
                    let _present = page.enter(Row::own(), region);
                    if let (State::Live, epoch) = words.state(region) {
                        places[epoch as usize % 2].fetch_add(1, Relaxed);
                        written += 1;
                    }
                }
                written
            };
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(write)).collect();
            for epoch in 0..MOVES {
                words.set(region, State::Moving, epoch);
                let fence = Fence::made();
                while !watch.is_quiet(region, &fence) {
                    std::thread::yield_now();
                }
                let [from, to] = [0, 1].map(|next| &places[(epoch + next) as usize % 2]);
                to.store(from.swap(0, Relaxed), Relaxed);
                words.set(region, State::Live, epoch + 1);
            }
            stop.store(1, Relaxed);
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!(places.iter().map(|it| it.load(Relaxed)).sum::<u64>(), written);
    });
}
