//! What becomes of calls and replies when whoever takes part in them ends.

mod support;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::rpc::HEAD_BYTES;
use heliostat_server_rpc::RpcOrder;
use support::{
    errno, function, operation, payload, piece, session, with_callers, Loop, CALLS, IN, NOTHING,
    OUT, SERVES,
};

#[test]
fn an_end_says_whether_the_call_was_delivered() {
    let mut on = with_callers(1);
    let timed = |on: &mut Loop, tag| {
        let asked = on.call_of(1, tag, b"x");
        on.submit(1, &Operation { timeout_us: 1000, ..asked });
    };
    timed(&mut on, 1);
    assert_eq!(on.next(1).result, errno(libc::ETIMEDOUT));
    on.receive(0, 5);
    timed(&mut on, 2);
    let (head, _) = on.received(0, 5);
    assert_eq!(on.next(1).result, errno(libc::ETIME));
    on.reply(0, 6, head.token, b"late");
    assert_eq!(on.next(0).result, errno(libc::ENOENT));
    // Cancelled in the same two places.
    let cancel = |on: &mut Loop, tag| on.submit(1, &operation(OpKind::Cancel, 99, tag, &[]));
    on.call(1, 3, b"x");
    on.sweep(20);
    cancel(&mut on, 3);
    let ends = [on.next(1), on.next(1)].map(|it| (it.tag, it.result));
    assert_eq!(ends, [(3, errno(libc::ECANCELED)), (99, 0)]);
    on.receive(0, 7);
    on.call(1, 4, b"x");
    on.received(0, 7);
    cancel(&mut on, 4);
    let ends = [on.next(1), on.next(1)].map(|it| (it.tag, it.result));
    assert_eq!(ends, [(4, errno(libc::EINTR)), (99, 0)]);
}

#[test]
fn calls_of_a_server_that_ends_end_and_those_in_line_wait_for_another() {
    let mut on = Loop::with(4, 8);
    (0..2).for_each(|server| on.grant(server, SERVES));
    (2..4).for_each(|caller| on.grant(caller, CALLS));
    on.receive(0, 5);
    on.call(2, 9, b"received");
    on.received(0, 5);
    on.call(3, 9, b"in line");
    assert!(on.is_silent(3));
    on.grant(0, NOTHING);
    on.end(0);
    assert_eq!(on.next(2).result, errno(libc::EOWNERDEAD));
    assert!(on.is_silent(3));
    on.receive(1, 5);
    assert_eq!(on.received(1, 5).1, b"in line");
    on.order(RpcOrder::Gone { function: function(1) });
    assert!(on.is_silent(3), "what was delivered may still be answered");
    on.call(2, 10, b"x");
    assert_eq!(on.next(2).result, errno(libc::ESTALE));
}

#[test]
fn what_waits_for_a_function_that_is_gone_was_not_delivered() {
    let mut on = with_callers(1);
    on.call(1, 9, b"x");
    on.sweep(20);
    on.order(RpcOrder::Gone { function: function(1) });
    assert_eq!(on.next(1).result, errno(libc::ESTALE));
}

/// In each sweep of a long call, and of a long reply, one side ends.
#[test]
fn who_ends_while_bytes_are_on_their_way_costs_the_other_side_nothing() {
    for sweeps in 0..80 {
        let (mut on, sent) = (with_callers(2), payload(1 << 20, 3));
        on.receive(0, 5);
        on.call(1, 9, &sent);
        on.sweep(sweeps);
        on.end(1);
        on.call(2, 9, b"next");
        let (head, found) = on.received(0, 5);
        let is_first = head.session == session(1);
        assert!(if is_first { found == sent } else { found == b"next" }, "{sweeps}");
    }
    for sweeps in 0..80 {
        let (mut on, sent) = (with_callers(1), payload(1 << 20, 3));
        on.receive(0, 5);
        on.call(1, 9, b"x");
        let (head, _) = on.received(0, 5);
        on.reply(0, 6, head.token, &sent);
        on.sweep(sweeps);
        on.end(0);
        let result = on.next(1).result;
        assert!(result == 1 << 20 || result == errno(libc::EOWNERDEAD), "{sweeps}: {result}");
    }
    for sweeps in 0..80 {
        let (mut on, sent) = (with_callers(2), payload(1 << 20, 3));
        on.receive(0, 5);
        on.call(1, 9, b"x");
        let (head, _) = on.received(0, 5);
        on.reply(0, 6, head.token, &sent);
        on.sweep(sweeps);
        on.end(1);
        let result = on.next(0).result;
        assert!(result == 0 || result == errno(libc::ENOENT), "{sweeps}: {result}");
        on.receive(0, 7);
        on.call(2, 9, b"next");
        assert_eq!(on.received(0, 7).1, b"next");
    }
}

/// The receiver's time is over while a call is on its way to it: it gets the call, or nothing.
#[test]
fn a_receive_that_is_cut_short_leaves_its_call_whole() {
    for sweeps in (0..80).step_by(3) {
        let (mut on, sent) = (with_callers(1), payload(1 << 20, 3));
        on.receive(0, 5);
        on.call(1, 9, &sent);
        on.sweep(sweeps);
        on.submit(0, &operation(OpKind::Cancel, 99, 5, &[]));
        let first = on.next(0);
        if first.tag == 5 && first.result == errno(libc::ECANCELED) {
            on.receive(0, 6);
        }
        for _ in 0..3 {
            on.sweep(200);
        }
        let all: Vec<_> = std::iter::from_fn(|| on.poll(0)).chain([first]).collect();
        let whole = (HEAD_BYTES + sent.len()) as i64;
        assert_eq!(all.iter().filter(|it| it.result == whole).count(), 1, "{sweeps}: {all:?}");
        assert!(on.bytes(0, IN + HEAD_BYTES as u64, sent.len()) == sent, "{sweeps}");
    }
}

/// A long reply goes along with a Receive, and whoever waited for it ends: the Receive is one receiver.
#[test]
fn a_receive_whose_long_reply_nobody_waits_for_gets_one_call() {
    for sweeps in 0..80 {
        let (mut on, back) = (with_callers(3), payload(1 << 20, 3));
        on.receive(0, 5);
        on.call(1, 9, b"x");
        let (head, _) = on.received(0, 5);
        on.sessions[0].window.copy_in(OUT as usize, &back).unwrap();
        let pieces = [piece(IN, (1 << 20) + HEAD_BYTES as u32), piece(OUT, 1 << 20)];
        on.submit(0, &operation(OpKind::Receive, 6, head.token, &pieces));
        on.sweep(sweeps);
        on.end(1);
        on.sweep(50);
        for (caller, tag) in [(2, 6), (3, 7)] {
            on.call(caller, 9, b"next");
            on.sweep(20);
            if tag == 7 {
                on.receive(0, tag);
            }
            let (head, found) = on.received(0, tag);
            assert_eq!((head.session, found), (session(caller), b"next".to_vec()), "{sweeps}");
            on.reply(0, 8, head.token, b"ok");
            assert_eq!((on.next(0).result, on.next(caller).result), (0, 2), "{sweeps}");
        }
    }
}

/// A server ends in each sweep of a long call: what it has not received goes to another, once.
#[test]
fn a_call_that_was_not_delivered_goes_to_the_next_server_once() {
    for sweeps in 0..80 {
        let (mut on, sent) = (Loop::with(3, 8), payload(1 << 20, 3));
        (0..2).for_each(|server| on.grant(server, SERVES));
        on.grant(2, CALLS);
        on.receive(0, 5);
        on.call(2, 9, &sent);
        on.sweep(sweeps);
        let was_delivered = on.poll(0).is_some();
        on.grant(0, NOTHING);
        on.end(0);
        on.receive(1, 6);
        if was_delivered {
            assert_eq!(on.next(2).result, errno(libc::EOWNERDEAD), "{sweeps}");
            assert!(on.is_silent(1), "{sweeps}");
            continue;
        }
        let (head, found) = on.received(1, 6);
        assert!(found == sent, "{sweeps}");
        on.receive(1, 7);
        assert!(on.is_silent(1), "{sweeps}");
        on.reply(1, 8, head.token, b"ok");
        assert_eq!((on.next(1).result, on.next(2).result), (0, 2), "{sweeps}");
    }
}

/// A session that ends loses its rights one by one, and its connection first.
#[test]
fn a_caller_stays_who_it_was_while_it_ends() {
    let mut on = Loop::with(2, 8);
    on.serve(2, 8);
    on.grant_of(0, 2, SERVES);
    (1..3).for_each(|of| on.grant_of(1, of, CALLS));
    let asked = on.call_of(1, 9, b"x");
    on.submit(1, &Operation { object: function(2), ..asked });
    on.sweep(20);
    let (session, function) = (session(1), function(1));
    on.order(RpcOrder::Grant { session, who: None, function, role: NOTHING });
    let place = [piece(IN, (1 << 20) + HEAD_BYTES as u32)];
    let receive = operation(OpKind::Receive, 5, 0, &place);
    on.submit(0, &Operation { object: support::function(2), ..receive });
    let (head, _) = on.received(0, 5);
    assert_eq!((head.user, head.process), (1001, 51));
}
