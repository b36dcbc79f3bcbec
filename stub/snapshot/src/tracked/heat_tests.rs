//! What becomes of a chunk, played by sets of written pages.

use super::*;
use crate::tracked::pages::PAGES;

fn set(pages: impl IntoIterator<Item = usize>) -> PageSet {
    let mut set = PageSet::EMPTY;
    pages.into_iter().for_each(|page| set.insert(page..page + 1));
    set
}

/// One version of a program that writes `written`: what the kernel is asked, and how many pages
/// faulted before. Plays the kernel: what is protected, and what that lets be seen.
fn version(chunk: &mut Chunk, protected: &mut PageSet, written: PageSet) -> (Query, usize) {
    let faults = written.and(*protected).len();
    *protected = protected.minus(written);
    let (way, seen) = (chunk.query(), PageSet::ALL.minus(*protected));
    match way {
        Query::Take => chunk.judge_taken(seen, PAGES),
        Query::Believe => chunk.believed(),
        Query::Watch => chunk.watched(),
        Query::Look => match chunk.judge_seen(seen, PAGES) {
            Verdict::AllWritten => return (way, faults),
            Verdict::Take => {}
            Verdict::Protect(these) => {
                *protected = PageSet::ALL.minus(seen.minus(these));
                return (way, faults);
            }
        },
    }
    if way != Query::Believe {
        *protected = PageSet::ALL;
    }
    let is_told = PageSet::ALL.minus(*protected).minus(chunk.unwatched()).is_empty();
    assert!(is_told, "what is unprotected is known to be so");
    (way, faults)
}

fn faults(chunk: &mut Chunk, protected: &mut PageSet, sets: &[PageSet]) -> Vec<usize> {
    sets.iter().map(|written| version(chunk, protected, *written).1).collect()
}

#[test]
fn pages_written_each_time_fault_thrice_then_only_their_witnesses_do() {
    let (mut chunk, mut protected) = (COLD, PageSet::ALL);
    let written = set((0..51).map(|page| page * 10));
    let found = faults(&mut chunk, &mut protected, &[written; 3 + 16 + 1 + 32 + 1 + 32 + 1]);
    let steady = |versions: usize| vec![4; versions];
    let wanted =
        [vec![51; 3], steady(16), vec![51], steady(32), vec![51], steady(32), vec![51]].concat();
    assert_eq!(found, wanted);
}

#[test]
fn a_set_that_is_not_written_any_more_is_watched_again_at_once() {
    let (mut chunk, mut protected) = (COLD, PageSet::ALL);
    let written = set(100..140);
    faults(&mut chunk, &mut protected, &[written; 5]);
    assert!(!chunk.unwatched().is_empty());
    version(&mut chunk, &mut protected, PageSet::EMPTY);
    assert!(chunk.unwatched().is_empty() && protected == PageSet::ALL);
}

#[test]
fn a_set_that_moves_is_watched_and_one_of_few_pages_too() {
    let (mut chunk, mut protected) = (COLD, PageSet::ALL);
    for round in 0..100 {
        let moving = set((0..50).map(|page| (page * 10 + round) % PAGES));
        version(&mut chunk, &mut protected, moving);
        assert!(chunk.unwatched().is_empty(), "{round}");
    }
    for _ in 0..10 {
        let (way, _) = version(&mut chunk, &mut protected, set(0..7));
        assert_eq!(way, Query::Take);
    }
}

#[test]
fn a_steady_set_beside_which_a_quarter_more_is_written_is_watched_again() {
    let (mut chunk, mut protected) = (COLD, PageSet::ALL);
    faults(&mut chunk, &mut protected, &[set(0..40); 4]);
    version(&mut chunk, &mut protected, set(0..50));
    assert!(!chunk.unwatched().is_empty());
    version(&mut chunk, &mut protected, set(0..51));
    assert!(chunk.unwatched().is_empty());
}

#[test]
fn a_chunk_that_stays_hot_faults_in_one_version_of_129() {
    let (mut chunk, mut protected) = (COLD, PageSet::ALL);
    let found = faults(&mut chunk, &mut protected, &[PageSet::ALL; 600]);
    let when: Vec<usize> = (0..600).filter(|version| found[*version] > 0).collect();
    // Once is not often, so what was protected faults once more.
    assert_eq!(when, [0, 1, 18, 51, 116, 245, 374, 503]);
}

#[test]
fn a_hot_chunk_that_cooled_down_is_watched_again() {
    let (mut chunk, mut protected) = (COLD, PageSet::ALL);
    faults(&mut chunk, &mut protected, &[PageSet::ALL; 18]);
    version(&mut chunk, &mut protected, set(0..3));
    assert!(chunk.unwatched().is_empty() && protected == PageSet::ALL);
}

#[test]
fn a_chunk_written_densely_in_each_second_version_turns_hot_and_in_each_third_never() {
    let turns_hot = |period: usize| {
        let (mut chunk, mut protected) = (COLD, PageSet::ALL);
        (0..60).any(|round| {
            let written = if round % period == 0 { PageSet::ALL } else { PageSet::EMPTY };
            version(&mut chunk, &mut protected, written);
            !chunk.unwatched().is_empty()
        })
    };
    assert_eq!([1, 2, 3, 4].map(turns_hot), [true, true, false, false]);
}
