//! What becomes of calls and replies on a loop.

mod support;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::limits::MESSAGE_BYTES_MAX;
use heliostat_abi::rpc::operation::{NOBODY_WAITED, REPLY_FAILED};
use heliostat_abi::rpc::{CALL_FAILED, HEAD_BYTES};
use heliostat_server_rpc::RpcOrder;
use support::{
    errno, function, operation, payload, piece, session, with_callers, Loop, CALLS, IN, OUT, SERVES,
};

#[test]
fn a_call_of_any_length_is_received_and_answered() {
    let mut on = with_callers(1);
    for bytes in [0, 1, 8, 16384, 16385, 100_000, 1 << 20] {
        let (sent, back) = (payload(bytes, 1), payload((1 << 20) - bytes, 2));
        on.receive(0, 5);
        on.call(1, 9, &sent);
        let (head, found) = on.received(0, 5);
        assert!(found == sent, "{bytes} bytes");
        assert_eq!((head.session, head.user, head.process), (session(1), 1001, 51));
        assert_eq!((head.node, head.flags, head.left_us), (0, 0, 0));
        on.reply(0, 6, head.token, &back);
        assert_eq!((on.next(0).result, on.next(1).result), (0, back.len() as i64));
        assert!(on.bytes(1, IN, back.len()) == back, "reply to {bytes} bytes");
    }
}

#[test]
fn a_call_that_comes_first_waits_for_a_receiver_and_its_time_is_told() {
    let mut on = with_callers(1);
    let asked = on.call_of(1, 9, b"hello");
    on.submit(1, &Operation { timeout_us: 20_000_000, ..asked });
    assert!(on.is_silent(1));
    on.receive(0, 5);
    let (head, found) = on.received(0, 5);
    assert_eq!(found, b"hello");
    assert!((1..=20_000_001).contains(&head.left_us), "{}", head.left_us);
}

#[test]
fn a_reply_and_the_next_receive_are_one_operation() {
    let mut on = with_callers(2);
    on.call(1, 9, b"one");
    on.call(2, 9, b"two");
    on.receive(0, 5);
    let (head, _) = on.received(0, 5);
    on.sessions[0].window.copy_in(OUT as usize, b"first").unwrap();
    let pieces = [piece(IN, (1 << 20) + HEAD_BYTES as u32), piece(OUT, 5)];
    on.submit(0, &operation(OpKind::Receive, 6, head.token, &pieces));
    assert_eq!((on.next(1).result, on.bytes(1, IN, 5)), (5, b"first".to_vec()));
    let (head, found) = on.received(0, 6);
    assert_eq!((found.as_slice(), head.flags), (&b"two"[..], 0));
    // Whoever waited for the reply that goes along has ended: the next call says so.
    on.end(2);
    on.submit(0, &operation(OpKind::Receive, 7, head.token, &pieces));
    assert!(on.is_silent(0));
    on.call(1, 10, b"three");
    let (head, found) = on.received(0, 7);
    assert_eq!((found.as_slice(), head.flags), (&b"three"[..], NOBODY_WAITED));
}

#[test]
fn the_functions_no_arrives_as_one() {
    let mut on = with_callers(1);
    on.call(1, 9, b"x");
    on.receive(0, 5);
    let (head, _) = on.received(0, 5);
    on.sessions[0].window.copy_in(OUT as usize, b"no").unwrap();
    let no = operation(OpKind::Reply, 6, head.token, &[piece(OUT, 2)]);
    on.submit(0, &Operation { offset: REPLY_FAILED, ..no });
    assert_eq!(on.next(1).result, (CALL_FAILED | 2) as i64);
}

#[test]
fn callers_take_turns_however_much_one_asks() {
    let mut on = with_callers(2);
    (0..100).for_each(|tag| on.call(1, tag, b"greedy"));
    on.sweep(50);
    (0..3).for_each(|tag| on.call(2, tag, b"modest"));
    on.sweep(50);
    let mut order = Vec::new();
    for tag in 0..6 {
        on.receive(0, tag);
        order.push(on.received(0, tag).0.user);
    }
    assert_eq!(order.iter().filter(|user| **user == 1002).count(), 3, "{order:?}");
}

#[test]
fn servers_take_turns() {
    let mut on = Loop::with(3, 8);
    (0..2).for_each(|server| on.grant(server, SERVES));
    on.grant(2, CALLS);
    (0..4).for_each(|tag| (0..2).for_each(|server| on.receive(server, tag)));
    on.sweep(50);
    (0..4).for_each(|tag| on.call(2, tag, b"x"));
    on.sweep(50);
    let each = [0, 1].map(|server| std::iter::from_fn(|| on.poll(server)).count());
    assert_eq!(each, [2, 2]);
}

#[test]
fn a_token_counts_for_its_server_once() {
    let mut on = Loop::with(4, 8);
    (0..2).for_each(|server| on.grant(server, SERVES));
    (2..4).for_each(|caller| on.grant(caller, CALLS));
    on.receive(0, 5);
    on.call(2, 9, b"x");
    let (head, _) = on.received(0, 5);
    let nobody = errno(libc::ENOENT);
    for thief in [1, 2, 3] {
        on.reply(thief, 6, head.token, b"stolen");
        assert_eq!(on.next(thief).result, nobody, "{thief}");
    }
    for wrong in [0, 1, head.token + 1, head.token + (1 << 32), u64::MAX] {
        on.reply(0, 6, wrong, b"guessed");
        assert_eq!(on.next(0).result, nobody, "{wrong:#x}");
    }
    assert!(on.is_silent(2));
    on.reply(0, 6, head.token, b"right");
    assert_eq!((on.next(0).result, on.next(2).result), (0, 5));
    on.reply(0, 6, head.token, b"again");
    assert_eq!(on.next(0).result, nobody);
}

#[test]
fn nobody_calls_or_serves_without_the_right_and_lengths_are_those_of_the_function() {
    let mut on = Loop::with(3, 8);
    on.grant(0, SERVES);
    on.grant(1, CALLS);
    on.call(0, 1, b"x");
    assert_eq!(on.next(0).result, errno(libc::EACCES));
    on.receive(1, 1);
    assert_eq!(on.next(1).result, errno(libc::EACCES));
    on.call(2, 1, b"x");
    assert_eq!(on.next(2).result, errno(libc::EBADF));
    let too_long = errno(libc::EMSGSIZE);
    let (place, long) = (piece(IN, 1 << 20), piece(OUT, (1 << 20) + 1));
    on.submit(1, &operation(OpKind::Call, 1, 0, &[place, long]));
    assert_eq!(on.next(1).result, too_long);
    on.submit(1, &operation(OpKind::Call, 1, 0, &[piece(IN, 100)]));
    assert_eq!(on.next(1).result, too_long, "the reply may have no room");
    on.submit(1, &operation(OpKind::Send, 1, 0, &[piece(OUT, MESSAGE_BYTES_MAX + 1)]));
    assert_eq!(on.next(1).result, too_long);
    on.submit(0, &operation(OpKind::Receive, 1, 0, &[piece(IN, 1 << 20)]));
    assert_eq!(on.next(0).result, too_long, "a call may have no room");
    let past = piece(IN, HEAD_BYTES as u32 - 1);
    on.submit(0, &operation(OpKind::Receive, 1, 0, &[past]));
    assert_eq!(on.next(0).result, errno(libc::EINVAL));
    on.submit(0, &operation(OpKind::Read, 1, 0, &[piece(IN, 10)]));
    assert_eq!(on.next(0).result, errno(libc::EINVAL));
}

#[test]
fn a_session_that_nobody_has_named_may_do_nothing() {
    let mut on = Loop::with(2, 8);
    let (session, function) = (session(1), function(1));
    on.order(RpcOrder::Grant { session, who: None, function, role: CALLS });
    on.call(1, 9, b"x");
    assert_eq!(on.next(1).result, errno(libc::EACCES));
}

/// The order that brings a right may lie behind more orders than one look carries out.
#[test]
fn an_operation_waits_for_all_orders_that_were_given_before_it() {
    let mut on = Loop::with(2, 8);
    on.grant(0, SERVES);
    on.call(1, 9, b"early");
    on.sweep(1);
    (0..200).for_each(|_| on.order_later(support::grant(0, 1, SERVES)));
    on.order_later(support::grant(1, 1, CALLS));
    on.receive(0, 5);
    assert_eq!(on.received(0, 5).1, b"early");
}

#[test]
fn a_reply_that_is_too_long_leaves_the_call_to_be_answered() {
    let mut on = with_callers(1);
    on.call(1, 9, b"x");
    on.receive(0, 5);
    let (head, _) = on.received(0, 5);
    let long = [piece(IN, (1 << 20) + 1)];
    on.submit(0, &operation(OpKind::Reply, 6, head.token, &long));
    assert_eq!(on.next(0).result, errno(libc::EMSGSIZE));
    on.reply(0, 7, head.token, b"short");
    assert_eq!((on.next(0).result, on.next(1).result), (0, 5));
}

#[test]
fn a_session_may_call_itself() {
    let mut on = Loop::with(1, 8);
    on.grant(0, heliostat_server_rpc::Role { serves: true, calls: true });
    let place = [piece(3 << 20, (1 << 20) - 1)];
    on.submit(0, &operation(OpKind::Receive, 5, 0, &place));
    assert_eq!(on.next(0).result, errno(libc::EMSGSIZE));
    let other = ObjectId { index: 9, generation: 9 };
    on.submit(0, &Operation { object: other, ..operation(OpKind::Receive, 5, 0, &[place[0]]) });
    assert_eq!(on.next(0).result, errno(libc::EBADF));
    on.receive(0, 5);
    on.call(0, 9, b"to myself");
    let (head, found) = on.received(0, 5);
    assert_eq!(found, b"to myself");
    on.reply(0, 6, head.token, b"and back");
    let ends = [on.next(0), on.next(0)].map(|it| (it.tag, it.result));
    assert!(ends.contains(&(6, 0)) && ends.contains(&(9, 8)), "{ends:?}");
}

/// Calls whose callers gave up do not stay, however many there are.
#[test]
fn many_calls_that_end_before_their_reply_leave_room_for_others() {
    let mut on = with_callers(1);
    for round in 0..3000 {
        on.receive(0, 5);
        on.call(1, round, b"x");
        on.received(0, 5);
        on.submit(1, &operation(OpKind::Cancel, 1 << 40, round, &[]));
        assert_eq!((on.next(1).tag, on.next(1).tag), (round, 1 << 40));
    }
    on.receive(0, 5);
    on.call(1, 9, b"last");
    let (head, _) = on.received(0, 5);
    on.reply(0, 6, head.token, b"ok");
    assert_eq!((on.next(0).result, on.next(1).result), (0, 2));
}
