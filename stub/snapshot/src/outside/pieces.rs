//! Ranges of addresses in order: what two lists share, and what one has and the other lacks.

use heliostat_backend_pages::track::Pages;

/// What lies in both lists, each ordered and without overlaps.
pub(super) fn overlap(one: &[Pages], other: &[Pages]) -> Vec<Pages> {
    let (mut found, mut at) = (Vec::new(), 0);
    for range in one {
        while other.get(at).is_some_and(|it| it.end <= range.start) {
            at += 1;
        }
        let met = other[at..].iter().take_while(|it| it.start < range.end);
        found.extend(met.map(|it| it.start.max(range.start)..it.end.min(range.end)));
    }
    found
}

/// What lies in `one` and not in `other`.
pub(super) fn without(one: &[Pages], other: &[Pages]) -> Vec<Pages> {
    let mut found = Vec::new();
    for range in one {
        let mut start = range.start;
        for hole in overlap(std::slice::from_ref(range), other) {
            found.push(start..hole.start);
            start = hole.end;
        }
        found.push(start..range.end);
    }
    found.retain(|it| !it.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_and_subtracted_page_by_page() {
        let (one, other) = ([0..10, 20..30, 30..40], [5..25, 28..29, 33..50]);
        assert_eq!(overlap(&one, &other), [5..10, 20..25, 28..29, 33..40]);
        assert_eq!(without(&one, &other), [0..5, 25..28, 29..30, 30..33]);
        assert_eq!(without(&other, &one), [10..20, 40..50]);
        assert_eq!((overlap(&one, &[]), without(&[], &one)), (vec![], vec![]));
        assert_eq!(without(&one, &one), []);
    }
}
