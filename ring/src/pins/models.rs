//! Loom: the orders V1 to V3 and D3 of pins, explored over all interleavings.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heliostat-ring --lib --release models`. It is
//! the production code over loom's atomics. A place's data is a loom cell that holds the number it
//! was written for, so that data rewritten under a pin is reported as the data race it is, and a
//! place read for another version as a wrong number.

mod door;

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::UnsafeCell;

/// Ordinary memory for a table of `P` places and `C` consumers' pages.
struct Region<const P: usize, const C: usize> {
    latest: AtomicU64,
    numbers: [AtomicU64; P],
    data: [UnsafeCell<u64>; P],
    pages: [Page; C],
}

/// A page with room for one pin, so that pins follow each other in one slot.
struct Page(AtomicU64);

// SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
unsafe impl<const P: usize, const C: usize> Send for Region<P, C> {}
// SAFETY: as above.
unsafe impl<const P: usize, const C: usize> Sync for Region<P, C> {}

impl<const P: usize, const C: usize> Words for Region<P, C> {
    fn latest(&self) -> &AtomicU64 {
        &self.latest
    }
    fn number(&self, place: usize) -> &AtomicU64 {
        &self.numbers[place]
    }
    fn places(&self) -> usize {
        P
    }
}

impl Pins for Page {
    fn pin(&self, at: usize) -> &AtomicU64 {
        assert_eq!(at, 0);
        &self.0
    }
    fn len(&self) -> usize {
        1
    }
}

impl<const P: usize, const C: usize> Region<P, C> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            latest: AtomicU64::new(0),
            numbers: std::array::from_fn(|_| AtomicU64::new(0)),
            data: std::array::from_fn(|_| UnsafeCell::new(0)),
            pages: std::array::from_fn(|_| Page(AtomicU64::new(0))),
        })
    }

    /// Publishes `number` in a place that can be had; false when consumers hold all others.
    fn produce(&self, number: u64) -> bool {
        let place = (0..P).find(|place| try_retire(self, *place, &self.pages));
        if let Some(place) = place {
            self.write(place, number);
            publish(self, place, number);
        }
        place.is_some()
    }

    fn write(&self, place: usize, number: u64) {
        // SAFETY: loom checks that nobody reads the cell meanwhile.
        self.data[place].with_mut(|cell| unsafe { *cell = number });
    }

    /// What a consumer does with a pin. Once is enough: loom reports a write that is not ordered
    /// against this read, whichever comes first.
    fn read(&self, (_, place, number): Pinned) {
        // SAFETY: loom checks that nobody writes the cell meanwhile.
        assert_eq!(self.data[place].with(|cell| unsafe { *cell }), number);
    }

    /// Pins the newest version, reads it, and gives it back; its number.
    fn visit(&self, consumer: usize, attempts: usize) -> u64 {
        let pinned = pin_latest_within(self, &self.pages[consumer], attempts).unwrap();
        self.read(pinned);
        unpin(&self.pages[consumer], pinned.0);
        pinned.2
    }
}

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

#[test]
fn loom_pinned_data_is_not_rewritten_while_two_places_take_three_versions() {
    model(4, || {
        let region = Region::<2, 1>::new();
        assert!(region.produce(1));
        let consumer = region.clone();
        let reader = thread::spawn(move || {
            let first = consumer.visit(0, 4);
            assert!(consumer.visit(0, 4) >= first);
        });
        let done = (2..=4).filter(|number| region.produce(*number)).count();
        assert!(done >= 1, "one place at most is pinned, and one is the newest");
        reader.join().unwrap();
        assert!(region.produce(5), "nothing stays pinned");
    });
}

#[test]
fn loom_two_consumers_keep_what_they_pinned_over_three_places() {
    model(3, || {
        let region = Region::<3, 2>::new();
        assert!(region.produce(1));
        let readers = [0, 1].map(|page| {
            let consumer = region.clone();
            thread::spawn(move || consumer.visit(page, 4))
        });
        for number in 2..=3 {
            region.produce(number);
        }
        for reader in readers {
            reader.join().unwrap();
        }
        assert!((0..3).all(|place| {
            let is_latest = region.numbers[place].load(Relaxed) == region.latest.load(Relaxed);
            try_retire(&*region, place, &region.pages) != is_latest
        }));
    });
}

#[test]
fn loom_an_old_version_is_retired_or_pinned_never_both() {
    loom::model(|| {
        let region = Region::<2, 1>::new();
        assert!(region.produce(1) && region.produce(2));
        let consumer = region.clone();
        let reader = thread::spawn(move || {
            let pinned = pin_number(&*consumer, &consumer.pages[0], 1);
            pinned.map(|pinned| consumer.read(pinned)).is_ok()
        });
        let is_retired = try_retire(&*region, 0, &region.pages);
        if is_retired {
            region.write(0, 3);
        }
        let is_pinned = reader.join().unwrap();
        assert!(!(is_retired && is_pinned));
        // Both in vain is allowed: then the version is there as before.
        let page = &region.pages[0];
        if !is_retired && !is_pinned {
            assert_eq!(pin_number(&*region, page, 1), Ok((0, 0, 1)));
        }
        assert_eq!(page.0.load(Relaxed), if is_retired { 0 } else { 1 });
    });
}

#[test]
fn loom_a_version_that_is_let_stay_is_whole_for_who_finds_it_only_then() {
    model(4, || {
        let region = Region::<2, 2>::new();
        let readers = [0, 1].map(|page| {
            let consumer = region.clone();
            thread::spawn(move || {
                let pinned = pin_number(&*consumer, &consumer.pages[page], 1);
                pinned.map(|pinned| consumer.read(pinned)).is_ok()
            })
        });
        assert!(region.produce(1) && region.produce(2));
        let is_retired = try_retire(&*region, 0, &region.pages);
        let pinned = readers.map(|reader| reader.join().unwrap());
        assert!(!(is_retired && pinned.contains(&true)));
    });
}

#[test]
fn loom_who_finds_the_newest_number_finds_its_version_at_once() {
    loom::model(|| {
        let region = Region::<2, 1>::new();
        let consumer = region.clone();
        let reader =
            thread::spawn(move || match pin_latest_within(&*consumer, &consumer.pages[0], 1) {
                Ok(pinned) => consumer.read(pinned),
                Err(error) => assert_eq!(error, PinError::Gone, "none was published yet"),
            });
        // Nothing is retired, so no attempt may be in vain.
        assert!(region.produce(1) && region.produce(2));
        reader.join().unwrap();
    });
}

#[test]
fn loom_each_vain_attempt_at_the_newest_version_costs_the_producer_one() {
    loom::model(|| {
        let region = Region::<2, 1>::new();
        assert!(region.produce(1));
        let consumer = region.clone();
        let reader = thread::spawn(move || {
            // As `pin_latest`, without its pause: behind one, loom shows newer values only.
            let mut missed = 0;
            loop {
                let number = consumer.latest.load(Acquire);
                assert!(number > missed, "version {missed} is gone and still the newest");
                match pin_number(&*consumer, &consumer.pages[0], number) {
                    Ok(pinned) => break consumer.read(pinned),
                    Err(_) => missed = number,
                }
            }
        });
        region.produce(2);
        region.produce(3);
        reader.join().unwrap();
    });
}

#[test]
fn loom_threads_of_one_consumer_share_a_page() {
    loom::model(|| {
        let region = Region::<1, 1>::new();
        assert!(region.produce(1));
        let other = region.clone();
        let thread = thread::spawn(move || pin_latest(&*other, &other.pages[0]));
        let answers = [pin_latest(&*region, &region.pages[0]), thread.join().unwrap()];
        assert!(answers.contains(&Ok((0, 0, 1))) && answers.contains(&Err(PinError::NoRoom)));
    });
}
