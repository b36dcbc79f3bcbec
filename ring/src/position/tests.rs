//! Every head, tail and length of a small ring, at the start, in the middle and at the wrap.

use super::*;

const SMALL: Geometry = match Geometry::small(64) {
    Some(geometry) => geometry,
    None => panic!("64 is a power of two"),
};

/// Positions around 0, around a lap, and on both sides of the wrap at 2^64.
fn bases() -> impl Iterator<Item = Position> {
    let near = (0..64).step_by(8);
    near.flat_map(|i| [i, (1 << 32) - 64 + i, u64::MAX - 127 + i, u64::MAX - 63 + i])
        .map(Position::new)
}

fn tails_and_heads() -> impl Iterator<Item = (Position, Position)> {
    bases().flat_map(|tail| (0..=64).step_by(8).map(move |used| (tail, tail.after(used))))
}

#[test]
fn an_element_that_fits_never_reaches_the_oldest_unreleased_byte() {
    for (tail, head) in tails_and_heads() {
        for len in 0..=SMALL.payload_bytes_max() {
            let span = SMALL.span(len).expect("within the limit");
            if SMALL.fits(head, tail, span) {
                let behind = head.after(span).after(HEADER_BYTES);
                assert!(behind.since(tail) <= 64, "{tail:?} {head:?} {len}");
                assert!(SMALL.index(head) + span as usize <= 128, "inside the double mapping");
            }
        }
    }
}

#[test]
fn every_allowed_element_fits_an_empty_ring_with_unpublished_releases() {
    for tail in bases() {
        let head = tail.after(SMALL.publish_bytes() - 8);
        let span = SMALL.span(SMALL.payload_bytes_max()).expect("within the limit");
        assert!(SMALL.fits(head, tail, span));
    }
}

#[test]
fn spans_are_whole_words_that_hold_header_and_payload() {
    for len in 0..=SMALL.payload_bytes_max() {
        let span = span_of(len);
        assert!(span % 8 == 0 && span >= len as u64 + 8 && span < len as u64 + 16);
    }
    let limit = SMALL.payload_bytes_max();
    for wanted in [limit + 1, usize::MAX / 2, usize::MAX] {
        assert_eq!(SMALL.span(wanted), Err(ReserveError::TooLarge { wanted, limit }));
    }
}

#[test]
fn a_foreign_tail_is_accepted_exactly_between_the_known_one_and_the_head() {
    for (known, head) in tails_and_heads() {
        for step in -80i64..=80 {
            let raw = known.value().wrapping_add(step as u64);
            let legal = step >= 0 && step % 8 == 0 && step as u64 <= head.since(known);
            let answer = SMALL.check_tail(RawPosition(raw), known, head);
            assert_eq!(answer.is_ok(), legal, "{known:?} {head:?} {step}");
        }
    }
}

#[test]
fn a_foreign_head_is_accepted_exactly_within_one_capacity_of_the_tail() {
    for tail in bases() {
        for step in -80i64..=160 {
            let raw = tail.value().wrapping_add(step as u64);
            let legal = (0..=64).contains(&step) && step % 8 == 0;
            assert_eq!(SMALL.check_head(RawPosition(raw), tail).is_ok(), legal);
        }
    }
}

#[test]
fn a_header_is_read_back_as_it_was_written() {
    for at in bases() {
        for len in 0..=SMALL.payload_bytes_max() {
            let written = RawHeader(ready(at, len));
            assert_eq!(SMALL.check_header(written, at), Ok(Header::Ready(len)));
            let given_up = RawHeader(skipped(at, len));
            assert_eq!(SMALL.check_header(given_up, at), Ok(Header::Skipped(len)));
        }
    }
    assert_eq!(SMALL.check_header(RawHeader(0), Position::new(8)), Ok(Header::Pending));
}

#[test]
fn a_header_with_any_bit_flipped_names_the_producer_or_stays_inside() {
    for at in bases() {
        for bit in 0..64 {
            let word = ready(at, 5) ^ (1 << bit);
            match SMALL.check_header(RawHeader(word), at) {
                Ok(Header::Ready(len) | Header::Skipped(len)) => {
                    assert!(len <= SMALL.payload_bytes_max());
                }
                Ok(Header::Pending) => assert_eq!(word, 0),
                Err(corrupt) => assert_eq!(corrupt.side, Side::Producer),
            }
        }
    }
}

#[test]
fn a_header_of_the_lap_before_is_refused() {
    for at in bases() {
        let stale = RawHeader(ready(Position::new(at.value().wrapping_sub(64)), 5));
        let answer = SMALL.check_header(stale, at);
        assert_eq!(answer.map_err(|c| c.fault), Err(Fault::Tag));
    }
}

#[test]
fn only_powers_of_two_within_the_limits_are_a_geometry() {
    for wanted in [0, 1, 4095, 4097, 5000, 2048, 1 << 33, u64::MAX] {
        assert_eq!(Geometry::new(wanted), None, "{wanted}");
    }
    for shift in 12..=32 {
        assert!(Geometry::new(1 << shift).is_some());
    }
}

#[test]
fn an_index_is_a_word_inside_the_data_for_every_position() {
    for value in (0..200).chain(u64::MAX - 200..=u64::MAX) {
        let index = SMALL.index(Position::new(value));
        assert!(index <= 56 && index % 8 == 0);
    }
}
