use super::*;

const ID: ObjectId = ObjectId { index: 7, generation: 3 };

fn all() -> Vec<LockRequest> {
    use LockRequest::*;
    let name = LockName::parse("jobs/0").unwrap();
    let open = |shape| Open { user: name::OWN_USER, name: name.clone(), shape };
    vec![
        open(Shape::LOCK),
        Close { handle: ID },
        Acquire { handle: ID, claim: Claim::Permits(1 << 31), wait: true },
        Release { ticket: ID, untouched: false },
        Cancel { ticket: ID },
        Next,
        Arrive { handle: ID },
        Reset { handle: ID },
        Bell,
        List { user: 0, from: 3, beginning: "jobs/".into() },
        Acquire { handle: ID, claim: Claim::Exclusive, wait: false },
        Acquire { handle: ID, claim: Claim::Shared, wait: true },
        open(Shape::READER_WRITER.silent()),
        open(Shape::semaphore(1 << 31).unwrap()),
        open(Shape::barrier(4).unwrap()),
        Release { ticket: ID, untouched: true },
        On { node: u64::MAX, request: Box::new(open(Shape::semaphore(7).unwrap())) },
    ]
}

#[test]
fn every_request_comes_back_as_it_was_and_has_its_number() {
    for request in all() {
        assert_eq!(LockRequest::decode(&request.encode()), Ok(request));
    }
    let numbers: Vec<_> = all().iter().take(10).map(LockRequest::number).collect();
    assert_eq!(numbers, (1792..1802).collect::<Vec<_>>());
}

#[test]
fn no_request_has_bytes_that_say_nothing() {
    for request in all() {
        let mut own = request.encode();
        own.body[REQUEST_BODY_BYTES - 1] = 1;
        assert_eq!(LockRequest::decode(&own), Err(WireError::Reserved), "{request:?}");
    }
}

#[test]
fn fields_out_of_their_range_are_refused_by_name() {
    let field = |request: &LockRequest, at: usize, value: u8| {
        let mut own = request.encode();
        own.body[at] = value;
        match LockRequest::decode(&own) {
            Err(WireError::Field { name, .. }) => name,
            other => panic!("{other:?}"),
        }
    };
    let all = all();
    assert_eq!(field(&all[0], 4, 5), "kind");
    assert_eq!(field(&all[0], 4, 3), "count", "a semaphore of no permits");
    assert_eq!(field(&all[0], 8, 1), "count", "a lock with a count");
    assert_eq!(field(&all[0], 12, 2), "flags");
    assert_eq!(field(&all[14], 12, 1), "flags", "a silent barrier");
    assert_eq!(field(&all[13], 8, 1), "count", "more permits than there may be");
    assert_eq!(field(&all[0], 20, b'/'), "lock name");
    assert_eq!(field(&all[0], 16, 65), "lock name");
    assert_eq!(field(&all[2], 8, 4), "claim");
    assert_eq!(field(&all[2], 12, 1), "permits");
    assert_eq!(field(&all[2], 16, 2), "wait");
    assert_eq!(field(&all[3], 8, 2), "untouched");
    assert_eq!(field(&all[16], 8, 2), "request on a node", "only names are asked for so");
    let own = OwnRequest { number: FIRST + 11, body: [0; REQUEST_BODY_BYTES] };
    assert_eq!(LockRequest::decode(&own), Err(WireError::Kind { found: FIRST + 11 }));
}

/// Whatever is changed in a record: it is none, or says exactly these bytes.
#[test]
fn changed_bytes_are_refused_or_mean_what_they_say() {
    let mut seed = 7u64;
    let mut random = move |limit: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % limit
    };
    let mut taken = 0;
    for round in 0..60_000 {
        let mut own = all()[round % 17].encode();
        for _ in 0..=random(3) {
            own.body[random(32)] = random(256) as u8;
        }
        if let Ok(request) = LockRequest::decode(&own) {
            taken += 1;
            assert_eq!(request.encode(), own, "{request:?}");
        }
    }
    assert!(taken > 1000, "{taken}");
}
