use super::*;
use crate::lock::outcome::Why;

const ID: ObjectId = ObjectId { index: 9, generation: 2 };

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Busy,
        Outcome::Queued,
        Outcome::Granted { token: u64::MAX, has_owner_died: true },
        Outcome::Granted { token: 1, has_owner_died: false },
        Outcome::Passed { generation: 3, index: 65_535 },
        Outcome::Broken { generation: 4, why: Why::Died },
        Outcome::Broken { generation: 4, why: Why::GaveUp },
        Outcome::Broken { generation: 4, why: Why::Reset },
        Outcome::Lost { node: 65_535 },
    ]
}

fn all() -> Vec<LockReply> {
    let listed = ListedLock {
        lock: ID,
        user: 1000,
        shape: Shape::semaphore(7).unwrap().silent(),
        opened: 4,
        held: 3,
        waiting: 2,
        has_owner_died: true,
        is_broken: false,
        age_s: 61,
        last: 1 << 60,
        name: LockName::parse(&"x".repeat(NAME_BYTES)).unwrap(),
    };
    let barrier = ListedLock {
        shape: Shape::barrier(4).unwrap(),
        has_owner_died: false,
        is_broken: true,
        ..listed.clone()
    };
    let mut events: Vec<_> =
        outcomes().into_iter().map(|outcome| Event { ticket: ID, outcome }).collect();
    events.extend(events.clone());
    events.truncate(EVENTS_PER_REPLY_MAX);
    let mut replies: Vec<_> = events[..9].iter().map(|event| LockReply::Outcome(*event)).collect();
    replies.extend([
        LockReply::Opened { handle: ID, lock: ObjectId { index: 1, generation: 1 } },
        LockReply::Events { events, more: true },
        LockReply::Events { events: Vec::new(), more: false },
        LockReply::Listed { locks: vec![listed.clone(), barrier, listed.clone(), listed], next: 9 },
        LockReply::Listed { locks: Vec::new(), next: NO_MORE },
    ]);
    replies
}

#[test]
fn every_reply_comes_back_as_it_was() {
    for reply in all() {
        assert_eq!(LockReply::decode(&reply.encode()), Ok(reply));
    }
}

#[test]
fn what_is_no_reply_says_which_field() {
    let wrong = |number, at: usize, value: u8| {
        let mut own = OwnReply { number, body: [0; REPLY_BODY_BYTES] };
        own.body[at] = value;
        LockReply::decode(&own).unwrap_err()
    };
    let field = |name, found| WireError::Field { name, found };
    assert_eq!(wrong(OUTCOME, 8, 6), field("outcome", 6));
    assert_eq!(wrong(OUTCOME, 8, 4), field("why", 0));
    assert_eq!(wrong(OUTCOME, 16, 1), field("outcome", 0), "busy with a token");
    assert_eq!(wrong(EVENTS, 0, 17), field("entries", 17));
    assert_eq!(wrong(EVENTS, 4, 2), field("more", 2));
    assert_eq!(wrong(EVENTS, 8, 1), WireError::Reserved);
    assert_eq!(wrong(LISTED, 0, 5), field("entries", 5));
    assert_eq!(wrong(OPENED, 16, 1), WireError::Reserved);
    assert_eq!(wrong(FIRST + 132, 0, 0), WireError::Kind { found: FIRST + 132 });
}

/// Whatever is changed in a record: it is none, or says exactly these bytes.
#[test]
fn changed_bytes_are_refused_or_mean_what_they_say() {
    let mut seed = 9u64;
    let mut random = move |limit: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % limit
    };
    let (replies, mut taken) = (all(), 0);
    for round in 0..60_000 {
        let mut own = replies[round % replies.len()].encode();
        for _ in 0..=random(3) {
            own.body[random(160)] = random(256) as u8;
        }
        if let Ok(reply) = LockReply::decode(&own) {
            taken += 1;
            assert_eq!(reply.encode(), own, "{reply:?}");
        }
    }
    assert!(taken > 1000, "{taken}");
}
