//! Who gets a seat, who is turned away, and who is missed.

use super::*;
use crate::engine::Whole;
use crate::pool::PinsPage;
use crate::source::{Source, SourceError};
use crate::{Region, Settings};
use heliostat_abi::snapshot::memory::CONSUMERS_MAX;
use heliostat_base::mapping::{MappingError, SharedMapping};
use heliostat_base::sys::Errno;

/// A page at an address of its own that is never read.
struct Page;

impl Source for Page {
    fn start(&self) -> usize {
        4096
    }

    fn len(&self) -> usize {
        4096
    }

    fn copy_to(
        &self,
        _offset: usize,
        _pool: &SharedMapping,
        _at: usize,
        _len: usize,
    ) -> Result<(), SourceError> {
        Ok(())
    }
}

fn region() -> Region {
    let engine = Box::new(Whole::new(0..4096));
    Region::with_engine(Box::new(Page), Settings::default(), engine).unwrap()
}

#[test]
fn who_comes_by_name_has_a_place_beside_all_who_did_not() {
    let mut region = region();
    let (page, _mapped) = PinsPage::create().unwrap();
    for _ in 0..CONSUMERS_MAX {
        assert!(region.admit(&page).unwrap().is_some());
    }
    assert_eq!(region.admit(&page), Ok(None));
    assert!(matches!(region.welcome(&page, None), Welcome::Seated(_)));
}

#[test]
fn who_is_dismissed_late_does_not_take_along_who_has_its_seat_now() {
    let mut region = region();
    let (page, theirs, gone) = PinsPage::create_with_bell().unwrap();
    let handle = region.admit_with_bell(&page, theirs.fd()).unwrap().unwrap();
    drop((theirs, gone));
    let (page, _mapped) = PinsPage::create().unwrap();
    for _ in 0..CONSUMERS_MAX {
        assert!(region.admit(&page).unwrap().is_some());
    }
    region.farewell(handle);
    assert_eq!(region.consumers.pages().count(), CONSUMERS_MAX);
}

#[test]
fn who_shows_no_page_is_turned_away_and_who_is_missed_for_want_of_memory_is_not() {
    let mut region = region();
    let (no_page, _mapped) = SharedMapping::create(c"no-page", 4096).unwrap();
    assert_eq!(region.welcome(&no_page, None), Welcome::Turned);
    let refused = |errno| {
        let error = MappingError::System { call: "mmap", errno: Errno(errno) };
        Welcome::of(Err::<PinsPage, _>(error.into()), |_| None)
    };
    assert_eq!(refused(libc::ENOMEM), Welcome::Missed);
    // It has shown a descriptor that may not be written.
    assert_eq!(refused(libc::EACCES), Welcome::Turned);
}

#[test]
fn places_of_consumers_that_ended_are_given_again() {
    let mut region = region();
    for _ in 0..2 * CONSUMERS_MAX {
        let (page, theirs, _consumer) = PinsPage::create_with_bell().unwrap();
        assert!(region.admit_with_bell(&page, theirs.fd()).unwrap().is_some());
    }
}
