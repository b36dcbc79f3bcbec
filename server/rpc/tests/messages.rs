//! Messages that are sent one way: their line, its room, and whose turn it is.

mod support;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::rpc::operation::SEND_NOW;
use support::{errno, function, operation, piece, Loop, CALLS, OUT, SERVES};

#[test]
fn messages_wait_in_line_up_to_a_number_and_outlive_their_sender() {
    let mut on = Loop::with(3, 4);
    on.grant(0, SERVES);
    (1..3).for_each(|sender| on.grant(sender, CALLS));
    let send = |on: &mut Loop, number: usize, tag, argument, text: &[u8]| {
        // Until it is in line its bytes lie in the window.
        let at = OUT + tag * 4096;
        on.sessions[number].window.copy_in(at as usize, text).unwrap();
        let pieces = [piece(at, text.len() as u32)];
        on.submit(number, &operation(OpKind::Send, tag, argument, &pieces));
    };
    // One sender gets no more places than it leaves free.
    for (tag, wanted) in [(1, 0), (2, 0), (3, errno(libc::EAGAIN))] {
        send(&mut on, 1, tag, SEND_NOW, b"a");
        assert_eq!(on.next(1).result, wanted, "{tag}");
    }
    send(&mut on, 2, 1, SEND_NOW, b"b");
    assert_eq!(on.next(2).result, 0);
    // Who waits gets in once there is room, in order.
    send(&mut on, 1, 4, 0, b"c");
    assert!(on.is_silent(1));
    send(&mut on, 1, 5, SEND_NOW, b"not before the one that waits");
    assert_eq!(on.next(1).result, errno(libc::EAGAIN));
    let mut found = Vec::new();
    for tag in 0..2 {
        on.receive(0, tag);
        let (head, text) = on.received(0, tag);
        assert_eq!(head.token, 0);
        found.push((head.user, text));
    }
    assert_eq!(on.next(1).tag, 4);
    on.end(1);
    for tag in 2..4 {
        on.receive(0, tag);
        let (head, text) = on.received(0, tag);
        found.push((head.user, text));
    }
    let texts: Vec<_> = found.iter().map(|(user, text)| (*user, text.as_slice())).collect();
    let wanted: [(u32, &[u8]); 4] = [(1001, b"a"), (1001, b"a"), (1002, b"b"), (1001, b"c")];
    assert_eq!(texts, wanted);
    on.receive(0, 9);
    assert!(on.is_silent(0));
}

#[test]
fn a_message_that_waits_for_room_ends_with_its_time() {
    let mut on = Loop::with(2, 1);
    on.grant(0, SERVES);
    on.grant(1, CALLS);
    let send = operation(OpKind::Send, 1, 0, &[]);
    on.submit(1, &send);
    assert_eq!(on.next(1).result, 0);
    on.submit(1, &Operation { tag: 2, timeout_us: 1000, ..send });
    assert_eq!(on.next(1).result, errno(libc::ETIMEDOUT));
    on.receive(0, 1);
    on.received(0, 1);
    on.receive(0, 2);
    assert!(on.is_silent(0), "what was not in line is not received");
}

/// What waits for bytes goes on when another function's messages leave some.
#[test]
fn a_message_that_waits_for_bytes_of_another_function_gets_them() {
    let mut on = Loop::with(3, 1024);
    on.serve(2, 8);
    on.grant(0, SERVES);
    on.grant(1, CALLS);
    on.grant_of(2, 2, CALLS);
    let long = operation(OpKind::Send, 1, SEND_NOW, &[piece(OUT, 1 << 16)]);
    let ends = std::iter::from_fn(|| {
        on.submit(1, &long);
        Some(on.next(1).result)
    });
    let stored = ends.take_while(|result| *result == 0).count();
    assert!((200..256).contains(&stored), "{stored}");
    let waits = operation(OpKind::Send, 9, 0, &[piece(OUT, 1 << 16)]);
    on.submit(2, &Operation { object: function(2), ..waits });
    assert!(on.is_silent(2));
    on.receive(0, 5);
    on.received(0, 5);
    assert_eq!((on.next(2).result, on.poll(2).is_none()), (0, true));
}

/// What waits behind one that found no bytes is not forgotten when that one's time is over.
#[test]
fn a_short_message_goes_on_when_the_long_one_before_it_has_ended() {
    let mut on = Loop::with(3, 1024);
    on.grant(0, SERVES);
    (1..3).for_each(|sender| on.grant(sender, CALLS));
    let long = operation(OpKind::Send, 1, SEND_NOW, &[piece(OUT, 1 << 16)]);
    let ends = std::iter::from_fn(|| {
        on.submit(1, &long);
        Some(on.next(1).result)
    });
    assert!(ends.take_while(|result| *result == 0).count() > 200);
    let waits = operation(OpKind::Send, 2, 0, &[piece(OUT, 1 << 16)]);
    on.submit(2, &Operation { timeout_us: 30_000, ..waits });
    on.submit(2, &operation(OpKind::Send, 3, 0, &[piece(OUT, 8)]));
    let told = [on.next(2), on.next(2)].map(|it| (it.tag, it.result));
    assert_eq!(told, [(2, errno(libc::ETIMEDOUT)), (3, 0)]);
}

/// One that has its share in line keeps nobody else from a place.
#[test]
fn a_place_that_the_first_who_waits_may_not_have_goes_to_the_next() {
    let mut on = Loop::with(5, 4);
    on.grant(0, SERVES);
    (1..5).for_each(|sender| on.grant(sender, CALLS));
    let send = |tag, argument| operation(OpKind::Send, tag, argument, &[]);
    for sender in [1, 1, 2, 3] {
        on.submit(sender, &send(1, SEND_NOW));
        assert_eq!(on.next(sender).result, 0, "{sender}");
    }
    for sender in [1, 4] {
        on.submit(sender, &send(2, 0));
        assert!(on.is_silent(sender), "{sender}");
    }
    on.receive(0, 5);
    on.received(0, 5);
    assert_eq!(on.next(4).result, 0);
    assert!(on.is_silent(1));
}

#[test]
fn messages_and_calls_take_turns() {
    let mut on = Loop::with(3, 64);
    on.grant(0, SERVES);
    (1..3).for_each(|caller| on.grant(caller, CALLS));
    (0..10).for_each(|tag| on.submit(1, &operation(OpKind::Send, tag, 0, &[])));
    on.sweep(100);
    (0..10).for_each(|tag| on.call(2, tag, b"x"));
    on.sweep(100);
    let mut calls = 0;
    for tag in 0..10 {
        on.receive(0, tag);
        calls += usize::from(on.received(0, tag).0.token != 0);
    }
    assert_eq!(calls, 5);
}
