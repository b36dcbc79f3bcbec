use super::*;

const HANDLE: ObjectId = ObjectId { index: 3, generation: 4 };

fn area() -> AreaName {
    AreaName::parse("redis/log").unwrap()
}

fn creation() -> Creation {
    let (others, rights) = (AreaRights::READ, AreaRights::ALL);
    let way = WayWanted::Direct;
    let alone = Alone::Yes;
    Creation { name: area(), bytes: 1 << 40, kind: AreaKind::Log, others, rights, way, alone }
}

fn all() -> Vec<StoreRequest> {
    let (rights, way) = (AreaRights::READ, WayWanted::Emulated);
    vec![
        StoreRequest::Create(creation()),
        StoreRequest::Open { user: 7, name: area(), rights, way, alone: Alone::Beside },
        StoreRequest::Close { handle: HANDLE },
        StoreRequest::Resize { handle: HANDLE, bytes: u64::MAX },
        StoreRequest::Appoint { handle: HANDLE, others: AreaRights::NONE },
        StoreRequest::Delete { handle: HANDLE },
        StoreRequest::SetRate { handle: HANDLE, bytes_per_second: 9 },
        StoreRequest::List { user: name::OWN_USER, from: 2, beginning: "redis/".into() },
        StoreRequest::Pieces { handle: HANDLE, from: 32 },
        StoreRequest::Session,
        StoreRequest::EndSession,
        StoreRequest::Store,
        StoreRequest::Attach,
        StoreRequest::Detach,
        StoreRequest::Outcome,
    ]
}

#[test]
fn every_request_comes_back_as_it_was() {
    let numbers: std::collections::BTreeSet<_> = all().iter().map(StoreRequest::number).collect();
    assert_eq!(numbers.len(), all().len());
    for request in all() {
        assert_eq!(StoreRequest::decode(&request.encode()), Ok(request));
    }
}

#[test]
fn a_field_out_of_its_range_is_named() {
    let changed = |at: usize| {
        let mut own = StoreRequest::Create(creation()).encode();
        own.body[at] = 99;
        match StoreRequest::decode(&own) {
            Err(WireError::Field { name, .. }) => name,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(changed(8), "kind of an area");
    assert_eq!(changed(12), "rights on an area");
    assert_eq!(changed(16), "rights on an area");
    assert_eq!(changed(20), "way to an area");
    assert_eq!(changed(24), "alone");
    assert_eq!(changed(28), "area name");
}

#[test]
fn bytes_behind_the_last_field_and_other_numbers_are_refused() {
    for request in all() {
        let mut own = request.encode();
        own.body[REQUEST_BODY_BYTES - 1] = 1;
        assert_eq!(StoreRequest::decode(&own), Err(WireError::Reserved), "{request:?}");
    }
    let other = OwnRequest { number: FIRST + 15, ..StoreRequest::Session.encode() };
    assert_eq!(StoreRequest::decode(&other), Err(WireError::Kind { found: FIRST + 15 }));
}
