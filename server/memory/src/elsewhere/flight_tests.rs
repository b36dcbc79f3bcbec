use super::*;
use heliostat_abi::file::delegated::{Piece, Pieces};
use heliostat_abi::memory::operation::set_argument;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_node::{LinkId, NodeId, PeerNode};

const WINDOW_BYTES: usize = 1 << 20;

fn there() -> There {
    let peer = PeerNode { node: NodeId(2), incarnation: 1, link: LinkId(3) };
    There { peer, handle: PeerHandle::default() }
}

fn window() -> SharedMapping {
    SharedMapping::create(c"window", WINDOW_BYTES).unwrap().1
}

fn asked(kind: OpKind, bytes: u32, argument: u64) -> Operation {
    let pieces = if bytes == 0 { vec![] } else { vec![Piece { offset: 64, bytes }] };
    let pieces = Pieces::new(&pieces).unwrap();
    let object = ObjectId::default();
    Operation { kind, object, offset: 4096, tag: 0, timeout_us: 0, argument, pieces }
}

fn nowhere(_: &CopySource) -> Result<There, Refusal> {
    Err(Refusal::Errno(libc::EXDEV))
}

/// A flight of an operation, and its first parts, which are sent.
fn begun<'a>(
    window: &'a SharedMapping,
    asked: &Operation,
) -> (Flight, Vec<Part>, WindowPieces<'a>) {
    let pieces = WindowPieces { window, pieces: asked.pieces };
    let mut flight = Flight::plan(asked, there(), (&pieces, None), nowhere).ok().unwrap();
    let mut parts = Vec::new();
    while let Some(part) = flight.next() {
        flight.send(part, &pieces).ok().unwrap();
        parts.push(part);
    }
    (flight, parts, pieces)
}

#[test]
fn a_read_ends_when_all_its_parts_have_come_in_any_order() {
    let window = window();
    let (mut flight, mut parts, pieces) = begun(&window, &asked(OpKind::Read, 600_000, 0));
    assert_eq!(parts.len(), 3);
    parts.reverse();
    for part in parts {
        assert_eq!(flight.result(), None);
        let bytes = vec![part.at as u8 | 1; part.bytes as usize];
        flight.answered(part, Ok((PeerAnswer::done(part.bytes), bytes)), &pieces);
    }
    assert_eq!(flight.result(), Some(600_000));
    let mut ends = [0; 600_000];
    window.copy_out(64, &mut ends).unwrap();
    assert!(ends.iter().all(|byte| *byte == 1));
}

#[test]
fn answers_that_are_none_end_it_and_write_nothing_beyond_their_part() {
    let wrong: [(u64, usize); 4] = [(8, 9), (9, 8), (8, 0), (u64::MAX, 8)];
    for (done, bytes) in wrong {
        let window = window();
        let (mut flight, parts, pieces) = begun(&window, &asked(OpKind::Read, 8, 0));
        flight.answered(parts[0], Ok((PeerAnswer::done(done), vec![7; bytes])), &pieces);
        assert_eq!(flight.result(), Some(-i64::from(libc::EREMOTEIO)), "{done} {bytes}");
        let mut found = [0; 128];
        window.copy_out(0, &mut found).unwrap();
        assert_eq!(found, [0; 128]);
    }
    let window = window();
    let set = asked(OpKind::Set, 0, set_argument(7, 100).unwrap());
    let (mut flight, parts, pieces) = begun(&window, &set);
    flight.answered(parts[0], Ok((PeerAnswer::done(100), vec![1])), &pieces);
    assert_eq!(flight.result(), Some(-i64::from(libc::EREMOTEIO)));
}

#[test]
fn the_first_failure_is_told_once_nothing_is_on_the_way() {
    let window = window();
    let (mut flight, parts, pieces) = begun(&window, &asked(OpKind::Write, 600_000, 0));
    let refused = Ok((PeerAnswer::refused(PeerRefusal::Stale), vec![]));
    flight.answered(parts[1], refused, &pieces);
    flight.answered(parts[0], Err(NoAnswer::Lost), &pieces);
    assert_eq!((flight.result(), flight.next()), (None, None));
    flight.answered(parts[2], Err(NoAnswer::NotSent), &pieces);
    assert_eq!(flight.result(), Some(-i64::from(libc::ESTALE)));
}

#[test]
fn not_sent_is_told_only_where_nothing_of_it_may_have_been_done() {
    let window = window();
    let write = asked(OpKind::Write, 600_000, 0);
    let (mut flight, parts, pieces) = begun(&window, &write);
    parts.iter().for_each(|part| flight.answered(*part, Err(NoAnswer::NotSent), &pieces));
    assert_eq!(flight.result(), Some(-i64::from(libc::EHOSTDOWN)));
    let (mut flight, parts, pieces) = begun(&window, &write);
    flight.answered(parts[0], Err(NoAnswer::NotSent), &pieces);
    flight.answered(parts[1], Ok((PeerAnswer::done(parts[1].bytes), vec![])), &pieces);
    flight.answered(parts[2], Err(NoAnswer::NotSent), &pieces);
    assert_eq!(flight.result(), Some(-i64::from(libc::ECONNRESET)));
}

#[test]
fn a_part_whose_region_moves_is_sent_again_and_not_for_ever() {
    let window = window();
    let (mut flight, parts, pieces) = begun(&window, &asked(OpKind::FetchAdd, 8, 5));
    for _ in 0..TRIES_MAX {
        let again = Ok((PeerAnswer::refused(PeerRefusal::Again), vec![]));
        flight.answered(parts[0], again, &pieces);
        assert_eq!(flight.next(), Some(parts[0]));
        flight.send(parts[0], &pieces).ok().unwrap();
    }
    flight.answered(parts[0], Err(NoAnswer::Full), &pieces);
    assert_eq!(flight.next(), Some(parts[0]), "nobody moved it");
    flight.send(parts[0], &pieces).ok().unwrap();
    let again = Ok((PeerAnswer::refused(PeerRefusal::Again), vec![]));
    flight.answered(parts[0], again, &pieces);
    assert_eq!(flight.result(), Some(-i64::from(libc::EAGAIN)));
}

#[test]
fn a_copy_goes_on_from_where_the_other_node_says_and_never_backwards() {
    let window = window();
    let source = CopySource { handle: ObjectId::default(), offset: 0, bytes: 3 << 20 };
    window.copy_in(64, &source.encode()).unwrap();
    let copy = asked(OpKind::Copy, 24, 0);
    let pieces = WindowPieces { window: &window, pieces: copy.pieces };
    let mut flight = Flight::plan(&copy, there(), (&pieces, None), |_| Ok(there())).ok().unwrap();
    let part = flight.next().unwrap();
    flight.send(part, &pieces).ok().unwrap();
    assert_eq!(flight.next(), None, "one at a time");
    flight.answered(part, Ok((PeerAnswer::done(1 << 20), vec![])), &pieces);
    let part = flight.next().unwrap();
    let (message, _) = flight.send(part, &pieces).ok().unwrap();
    assert!(matches!(message.action, PeerAction::Copy { done: 0x10_0000, bytes: 0x30_0000, .. }));
    flight.answered(part, Ok((PeerAnswer::done((2 << 20) + 1), vec![])), &pieces);
    assert_eq!(flight.result(), Some(-i64::from(libc::EREMOTEIO)), "more than there was to do");
}
