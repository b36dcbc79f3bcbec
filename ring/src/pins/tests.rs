//! Pins over ordinary memory: who gets what, and words that make no sense.

use super::PinError::{Busy, Gone, NoRoom};
use super::*;

/// Ordinary memory for a table of `P` places.
struct Table<const P: usize> {
    latest: AtomicU64,
    numbers: [AtomicU64; P],
}

impl<const P: usize> Table<P> {
    fn new() -> Self {
        Self { latest: AtomicU64::new(0), numbers: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl<const P: usize> Words for Table<P> {
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

/// Ordinary memory for a page of `S` slots.
struct Page<const S: usize>([AtomicU64; S]);

impl<const S: usize> Page<S> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const S: usize> Pins for Page<S> {
    fn pin(&self, at: usize) -> &AtomicU64 {
        &self.0[at]
    }
    fn len(&self) -> usize {
        S
    }
}

#[test]
fn a_pinned_version_stays_until_its_pin_goes() {
    let (table, page) = (Table::<2>::new(), Page::<8>::new());
    publish(&table, 0, 1);
    assert_eq!(pin_latest(&table, &page), Ok((0, 0, 1)));
    publish(&table, 1, 2);
    assert!(!try_retire(&table, 0, [&page]));
    assert_eq!(pin_number(&table, &page, 1), Ok((1, 0, 1)), "the version is still there");
    unpin(&page, 0);
    assert!(!try_retire(&table, 0, [&page]), "the second pin holds it");
    unpin(&page, 1);
    assert!(try_retire(&table, 0, [&page]));
    assert_eq!(pin_number(&table, &page, 1), Err(Gone));
    assert!(try_retire(&table, 0, [&page]), "a free place is free");
    assert_eq!(pinned_numbers([&page]).count(), 0, "no vain attempt left a pin behind");
}

#[test]
fn the_newest_version_is_never_retired() {
    let (table, page) = (Table::<2>::new(), Page::<8>::new());
    assert_eq!(pin_latest(&table, &page), Err(Gone), "none was published");
    publish(&table, 0, 1);
    assert!(!try_retire(&table, 0, [&page]));
    assert_eq!(pin_latest(&table, &page), Ok((0, 0, 1)));
}

#[test]
fn every_page_is_looked_at() {
    let (table, pages) = (Table::<3>::new(), [Page::<2>::new(), Page::new(), Page::new()]);
    publish(&table, 2, 5);
    assert_eq!(pin_latest(&table, &pages[2]), Ok((0, 2, 5)));
    publish(&table, 0, 6);
    assert_eq!(pin_latest(&table, &pages[0]), Ok((0, 0, 6)));
    assert!(!try_retire(&table, 2, &pages));
    assert!(try_retire(&table, 2, &pages[..2]), "the third consumer is dead");
    assert_eq!(pinned_numbers(&pages).collect::<Vec<_>>(), [6, 5]);
}

#[test]
fn a_full_page_pins_nothing_more() {
    let (table, page) = (Table::<2>::new(), Page::<2>::new());
    publish(&table, 0, 1);
    assert_eq!(pin_latest(&table, &page), Ok((0, 0, 1)));
    assert_eq!(pin_latest(&table, &page), Ok((1, 0, 1)));
    assert_eq!(pin_latest(&table, &page), Err(NoRoom));
    unpin(&page, 0);
    assert_eq!(pin_number(&table, &page, 1), Ok((0, 0, 1)));
    assert_eq!(pin_latest(&table, &Page::<0>::new()), Err(NoRoom));
}

#[test]
fn zero_is_no_version() {
    let (table, page) = (Table::<2>::new(), Page::<2>::new());
    assert_eq!(pin_number(&table, &page, 0), Err(Gone), "though it stands in every place");
    assert_eq!(pinned_numbers([&page]).count(), 0);
}

#[test]
fn a_table_that_lies_keeps_no_consumer_and_no_slot() {
    let (table, page) = (Table::<4>::new(), Page::<2>::new());
    for latest in [7, u64::MAX] {
        table.latest.store(latest, Relaxed);
        assert_eq!(pin_latest(&table, &page), Err(Busy), "no place has {latest}");
    }
    table.numbers[3].store(u64::MAX, Relaxed);
    table.numbers[1].store(u64::MAX, Relaxed);
    assert_eq!(pin_latest(&table, &page), Ok((0, 1, u64::MAX)), "the first of two");
    unpin(&page, 0);
    assert_eq!(pin_latest(&Table::<0>::new(), &page), Err(Gone));
    assert_eq!(pinned_numbers([&page]).count(), 0);
}

#[test]
fn a_page_that_lies_keeps_only_what_it_names() {
    let (table, page) = (Table::<3>::new(), Page::<8>::new());
    for (place, number) in [(0, 1), (1, 2), (2, 3)] {
        publish(&table, place, number);
    }
    for (at, pin) in page.0.iter().enumerate() {
        pin.store([u64::MAX, 2, 77, 1 << 63][at % 4], Relaxed);
    }
    assert!(try_retire(&table, 0, [&page]));
    assert!(!try_retire(&table, 1, [&page]));
    assert_eq!(table.numbers[1].load(Relaxed), 2);
    assert_eq!(pin_latest(&table, &page), Err(NoRoom), "it harmed itself");
}
