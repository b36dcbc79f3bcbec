//! Sessions that write anything: the loop goes on, and who behaves is served.

mod support;

use heliostat_abi::file::delegated::{OpKind, Operation, Piece, Pieces};
use support::{function, piece, Loop, CALLS, IN, OUT, SERVES, WINDOW_BYTES};

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// An operation that may be one.
fn any(random: &mut Random) -> Operation {
    let kinds = [OpKind::Call, OpKind::Send, OpKind::Receive, OpKind::Reply, OpKind::Cancel];
    let count = random.next(3) as usize;
    let mut pieces = [Piece::default(); 2];
    for place in &mut pieces {
        let bytes = [1, 64, 65, 1 << 16, 1 << 20, (1 << 20) + 64][random.next(6) as usize];
        *place = piece(random.next(WINDOW_BYTES as u64), bytes);
    }
    Operation {
        kind: kinds[random.next(5) as usize],
        object: function(random.next(3) as u32),
        offset: random.next(3),
        tag: random.next(8),
        timeout_us: [0, 1, 1000][random.next(3) as usize],
        argument: match random.next(3) {
            0 => random.next(3),
            1 => 1 << 32 | random.next(8),
            _ => random.next(8),
        },
        pieces: Pieces::new(&pieces[..count]).unwrap(),
    }
}

#[test]
fn whatever_some_sessions_ask_others_are_served() {
    let mut random = Random(88_172_645_463_325_252);
    let mut on = Loop::with(5, 8);
    on.serve(2, 8);
    on.grant_of(0, 2, SERVES);
    on.grant_of(1, 2, CALLS);
    for hostile in 2..5 {
        on.grant_of(hostile, 1, if hostile == 2 { SERVES } else { CALLS });
        on.grant_of(hostile, 2, if hostile == 4 { SERVES } else { CALLS });
    }
    for round in 0..400u64 {
        for hostile in 2..4 {
            let asked = any(&mut random);
            on.submit(hostile, &asked);
        }
        on.sweep(3);
        (2..5).for_each(|hostile| while on.poll(hostile).is_some() {});
        if round % 20 != 0 {
            continue;
        }
        // The one who behaves has its calls answered by the one who behaves.
        let receive = [piece(IN, (1 << 20) + 64)];
        let asked = Operation {
            object: function(2),
            ..support::operation(OpKind::Receive, 5, 0, &receive)
        };
        on.submit(0, &asked);
        on.sessions[1].window.copy_in(OUT as usize, b"in good faith").unwrap();
        let call = [piece(IN, 1 << 20), piece(OUT, 13)];
        let call = support::operation(OpKind::Call, round, 0, &call);
        on.submit(1, &Operation { object: function(2), ..call });
        serve_until_own(&mut on, round);
    }
}

/// Answers what comes, until the call of this tag is answered.
fn serve_until_own(on: &mut Loop, tag: u64) {
    for _ in 0..200 {
        let (head, _) = on.received(0, 5);
        if head.token != 0 {
            on.reply(0, 6, head.token, b"fine");
            // A hostile caller may have gone meanwhile.
            on.next(0);
        }
        on.sweep(3);
        if let Some(done) = on.poll(1) {
            assert_eq!((done.tag, done.result), (tag, 4));
            return;
        }
        let receive = [piece(IN, (1 << 20) + 64)];
        let asked = support::operation(OpKind::Receive, 5, 0, &receive);
        on.submit(0, &Operation { object: function(2), ..asked });
    }
    panic!("the call of {tag} was never answered");
}

#[test]
fn records_of_random_bytes_end_nobody_elses_session() {
    let mut random = Random(7);
    let mut on = Loop::with(3, 8);
    on.grant(0, SERVES);
    on.grant(1, CALLS);
    on.grant(2, CALLS);
    for _ in 0..2000 {
        let mut record = [0; 72];
        record.iter_mut().for_each(|byte| *byte = random.next(256) as u8);
        record[0] = 128 + random.next(6) as u8;
        let length = 40 + 16 * random.next(3) as usize;
        on.push(2, &record[..length]);
        on.sweep(2);
        while on.poll(2).is_some() {}
    }
    on.receive(0, 5);
    on.call(1, 9, b"x");
    let (head, _) = on.received(0, 5);
    on.reply(0, 6, head.token, b"y");
    assert_eq!((on.next(0).result, on.next(1).result), (0, 1));
    assert!(on.events.try_recv().is_err(), "a malformed record is answered");
}
